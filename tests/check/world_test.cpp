// The first things a checker must get right, on programs of a few lines.

#include <doctest/doctest.h>

#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;

TEST_CASE("put, fence, notify and wait are clean, and without the fence they are not") {
  for (const bool fence : {true, false}) {
    CAPTURE(fence);
    World world(two_ranks());
    const Body body = hand_over(fence);
    const Outcome outcome = explore(world, body);
    CHECK(outcome.exhausted == fence);
    CHECK(name_of(outcome.failure.verdict.kind) == (fence ? "clean" : "unordered read"));
  }
}

TEST_CASE("a world of one rank and one core has one schedule") {
  World world({.ranks = 1, .cores = 1});
  const Body body = one_launch([](CoreContext& c) {
    put(c, 0, cell(0), 1);
    c.sync_all();
    (void)get(c, 0, cell(0));
  });
  const Outcome outcome = explore(world, body);
  CHECK(outcome.exhausted);
  CHECK(outcome.runs == 1);
  CHECK(outcome.failure.verdict.clean());
}

TEST_CASE("memory, rounds and the heap are as at the start of every run") {
  World world({.ranks = 2, .first_round = 5});
  std::set<std::string> starts;
  const Body body = [&](Communicator& comm) -> Result<void> {
    const Result<Offset> block = comm.allocate(Bytes{64});
    if (!block) return block.error();
    auto words = comm.local<std::uint64_t>(*block, 1);
    const std::uint64_t round = comm.local<std::uint64_t>(comm.map().magic_of(Core{0}), 1)[0];
    starts.insert(fmt::format("{:#x} holds {}, round {}", block->value(), words[0], round));
    words[0] = 7;
    return comm.barrier();
  };
  const Outcome outcome = explore(world, body);
  CHECK(outcome.exhausted);
  CHECK(fmt::format("{}", fmt::join(starts, ", ")) == "0x400000 holds 0, round 5");
}

TEST_CASE("the story of a run tells every step once") {
  World world(two_ranks());
  const Body body = hand_over(true);
  Explorer explorer(world, body);
  std::vector<std::string> kinds;
  for (const Step& step : explorer.replay({}, true).story) {
    const std::string line = to_string(step, world.slots(), 1);
    kinds.push_back(line.substr(line.find_first_of("0123456789", 5), 1) + " " +
                    std::to_string(static_cast<int>(step.kind)));
  }
  using K = Step::Kind;
  const auto one = [](int rank, K kind) { return fmt::format("{} {}", rank, static_cast<int>(kind)); };
  CHECK(kinds == std::vector{one(0, K::enter), one(0, K::put), one(0, K::fence), one(0, K::signal), one(1, K::enter),
                             one(1, K::wait), one(0, K::put_landed), one(0, K::signal_landed), one(1, K::seen),
                             one(1, K::get)});
}
