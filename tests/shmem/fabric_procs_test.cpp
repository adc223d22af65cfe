// The scenarios, with ranks as processes that find each other's segments by name.

#include <doctest/doctest.h>

#include "tests/shmem/fabric_scenarios.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

/// The life of one rank: create, attach, agree that all are there, unlink, run.
int be_rank(Body body, const Plan& plan, Rank rank, const ShmNames& names, Scenario scenario) {
  Seat seat(plan, rank);
  seat.create_segments(names);
  seat.attach_peers(names);
  seat.start(body);
  const auto ranks = static_cast<std::uint64_t>(plan.options.ranks);
  const Hand first(seat);
  first.add(0, first.counter(3), 1);
  first.wait(0, first.counter(3), Compare::equal, ranks);
  seat.unlink();
  std::vector<std::thread> others;
  std::atomic<int> failed{0};
  const auto run_core = [&](std::int32_t core) {
    const Hand mine(seat, core);
    try {
      scenario(mine);
      mine.quiet();
    } catch (const std::exception& e) {
      fmt::print(stderr, "rank {} core {}: {}\n", rank, core, e.what());
      failed = 1;
    }
  };
  for (std::int32_t core = 1; core < plan.options.cores; ++core) others.emplace_back(run_core, core);
  run_core(0);
  for (std::thread& other : others) other.join();
  return failed;
}

void run_all(Body body, CopyPlan copy = {}) {
  const std::uint64_t seed = test_seed();
  for (const NamedScenario& scenario : kScenarios) {
    if (is_weak(body) && !scenario.moves_data) continue;
    INFO(name_of(body) << ": " << scenario.name << ", seed " << seed);
    const ShmNames names;
    const Plan plan({.ranks = scenario.ranks,
                     .cores = scenario.cores,
                     .oversubscribed = scenario.oversubscribed,
                     .copy = copy,
                     .seed = seed});
    std::vector<::pid_t> children;
    for (std::int32_t rank = 0; rank < scenario.ranks; ++rank) {
      children.push_back(start_child([&] { return be_rank(body, plan, Rank{rank}, names, scenario.run); }));
    }
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
      const Ending ending = await_child(children[rank]);
      CAPTURE(rank);
      CHECK(ending.signal == 0);
      CHECK(ending.exit_code == 0);
    }
    CHECK(names.present().empty());
  }
}

}  // namespace

TEST_CASE("conformance: processes over segments") { run_all(Body::segments); }
TEST_CASE("conformance: processes with delayed visibility") { run_all(Body::weak_segments); }
TEST_CASE("conformance: processes, every row streams") {
  run_all(Body::segments, {.kind = CopyKind::streaming, .long_row = 0});
}

TEST_CASE("what a killed process left in /dev/shm is removed, and its peer's mapping serves on") {
  const ShmNames names;
  const Plan plan({});
  const ::pid_t child = start_child([&] {
    Seat seat(plan, Rank{1});
    seat.create_segments(names);
    seat.attach_peers(names);
    seat.start(Body::segments);
    const Hand hand(seat);
    hand.put_signal(0, plan.area(), std::uint64_t{77}, hand.word(1), SignalOp::set, 1);
    hand.wait(1, hand.word(0), Compare::at_least, 1);  // never comes
    return 0;
  });
  Seat seat(plan, Rank{0});
  seat.create_segments(names);
  seat.attach_peers(names);
  seat.start(Body::segments);
  const Hand hand(seat);
  hand.wait(0, hand.word(1), Compare::at_least, 1);
  hand.until_asleep(1, hand.word(0));
  REQUIRE(::kill(child, SIGKILL) == 0);
  CHECK(await_child(child).signal == SIGKILL);
  CHECK(hand.get<std::uint64_t>(0, plan.area()) == 77);
  hand.put(1, plan.area(), std::uint64_t{5});
  CHECK(hand.get<std::uint64_t>(1, plan.area()) == 5);
  REQUIRE(clean_stale(false).has_value());
  CHECK(comes_true([&] { return clean_stale(false).has_value() && !in_shm(names.of("1.mem")); }));
  CHECK(!in_shm(names.of("1.ctl")));
  CHECK(in_shm(names.of("0.mem")));
  CHECK(in_shm(names.of("0.ctl")));
}
