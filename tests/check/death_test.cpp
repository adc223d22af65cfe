// W10: of what a core that died had sent, any part may land, and the rest never does.

#include <doctest/doctest.h>

#include <set>

#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;

TEST_CASE("what a dead core had sent lands or does not") {
  Shape shape = two_ranks();
  shape.races = false;
  World world(shape);
  std::string seen;
  const Body body = [&](Communicator& comm) {
    return comm.launch("death", [&](CoreContext& context) {
      const Slot slot = context.slots().flag().at(0, Rank{0});
      if (context.rank() == Rank{0}) {
        const std::uint64_t row = 1;
        context.put(Rank{1}, Offset{0}, std::span{&row, 1});
        context.fence(Rank{1});
        context.signal(Rank{1}, slot, shmem::SignalOp::set, 1);
        context.fabric().actor({.kind = shmem::ActorEvent::Kind::stop, .op = {}, .round = {}}, SourceSite::here());
        return;
      }
      const bool arrived = holds(context.test({.where = Rank{1}, .slots = {&slot, 1}, .value = 1}));
      std::uint64_t row = 0;
      context.get(Rank{1}, Offset{0}, std::span{&row, 1}, shmem::Witness::own());
      seen = fmt::format("{} {}", arrived ? "signal" : "no signal", row);
    });
  };
  std::set<std::string> outcomes;
  Bounded all(Bounded::Price::delays, 20);
  for (bool more = true; more;) {
    all.begin_run();
    const Run run = world.run(body, all);
    CHECK(run.verdict.clean());
    outcomes.insert(seen);
    if (run.outdated) all.start_again();
    more = run.outdated || all.end_run(run.decisions);
  }
  // Never the signal without the row: the fence holds for the dead, too.
  CHECK(outcomes == std::set<std::string>{"no signal 0", "no signal 1", "signal 1"});
}

TEST_CASE("who waits for a dead core may wait for ever") {
  World world(two_ranks());
  const Body body = [](Communicator& comm) {
    return comm.launch("death", [](CoreContext& context) {
      const Slot slot = context.slots().flag().at(0, Rank{0});
      if (context.rank() == Rank{1}) return context.wait(slot, Compare::at_least, 1).ordering_only();
      context.signal(Rank{1}, slot, shmem::SignalOp::set, 1);
      context.fabric().actor({.kind = shmem::ActorEvent::Kind::stop, .op = {}, .round = {}}, SourceSite::here());
    });
  };
  std::set<VerdictKind> kinds;
  Bounded all(Bounded::Price::delays, 20);
  for (bool more = true; more;) {
    all.begin_run();
    const Run run = world.run(body, all);
    kinds.insert(run.verdict.kind);
    if (run.outdated) all.start_again();
    more = run.outdated || all.end_run(run.decisions);
  }
  CHECK(kinds == std::set<VerdictKind>{VerdictKind::clean, VerdictKind::orphan_wait});
}
