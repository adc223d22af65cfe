// The double-barrier overrun between the barriers of dispatch, with the real operators.

#include <doctest/doctest.h>

#include "tests/ops/ep_fixture.hpp"
#include "tests/runtime/delayed_fabric.hpp"

using namespace shmoe;
namespace support = shmoe::runtime::test;

namespace {

constexpr std::int32_t kTwoRanks = 2;

struct Run {
  support::Outcomes outcomes;
  std::vector<support::Stuck> stuck = std::vector<support::Stuck>(kTwoRanks);
  std::vector<std::string> differences = std::vector<std::string>(kTwoRanks, "not run");
};

/// One step from a fresh region: layout, notify, dispatch and, where it gets so far, combine.
Run run_delayed(const Profile& profile, const support::Delay& delay, std::chrono::seconds limit) {
  const test::EpCase input = test::make_case(1, {.experts = 6, .tokens = {5, 7}});
  const test::Expected expected = test::expect(input);
  const std::span<const test::EpCase> cases{&input, 1};
  Run run;
  support::HostBarrier ranks_meet(kTwoRanks);
  std::atomic<bool> stopped = false;
  run.outcomes = support::run_ranks(
      kTwoRanks, test::config_for({.profile = profile}, test::heap_for(cases)),
      [&](runtime::World& world) -> Result<void> {
        runtime::Communicator& comm = world.all();
        const Result<test::Room> room = test::allocate_room(comm, cases);
        if (!room) return room.error();
        support::start_from_zero(comm, ranks_meet);
        comm.set_wait_limit(limit);
        const Result<test::Outcome> outcome = test::run_step(comm, input, *room, 0);
        stopped = stopped || !outcome;
        if (!outcome) return outcome.error();
        run.differences[comm.rank().index()] = test::difference(input, expected, comm.rank().value(), *outcome);
        return comm.barrier();
      },
      [&](std::unique_ptr<shmem::Fabric> next, Rank rank, Core) -> std::unique_ptr<shmem::Fabric> {
        return std::make_unique<support::DelayedFabric>(std::move(next), delay, rank, run.stuck[rank.index()], stopped);
      });
  return run;
}

}  // namespace

TEST_CASE("S1: in July's protocol dispatch deadlocks when rank 1 looks at its entry barrier too late") {
  // Notify has magic 0, dispatch 1: its entry (1,1) and its exit (1,2) share buffer 1.
  const support::Word entry{1, 0x0000000100000001};
  const support::Word exit{1, 0x0000000100000002};
  const Run run = run_delayed(kFaithful202607, {.ranks = kTwoRanks, .ranks_held = 1, .awaited = entry, .arrived = exit},
                              std::chrono::seconds(60));
  CHECK(run.stuck[0].expected == 0x0000000100000002);
  CHECK(run.stuck[0].seen == 0x0000000100000001);
  CHECK(run.stuck[0].source == Rank{1});
  CHECK(run.stuck[1].expected == 0x0000000100000001);
  CHECK(run.stuck[1].seen == 0x0000000100000002);
  CHECK(run.stuck[1].source == Rank{0});
  for (const auto& outcome : run.outcomes) {
    REQUIRE(outcome);
    CHECK(outcome->code == Errc::deadlock);
    CHECK_MESSAGE(
        support::contains(outcome->context, "overrun: rank 1 core 0 looks for 0x100000001 in barrier[1] from rank 0"),
        support::text_of(outcome));
  }
}

TEST_CASE("S1: in safe the same delay does no harm") {
  // Words count barriers: notify 1, dispatch entry 2, dispatch exit 3.
  const support::Word entry{0, 0x200};
  const support::Word exit{1, 0x300};
  const Run run = run_delayed(kSafe, {.ranks = kTwoRanks, .ranks_held = 1, .awaited = entry, .arrived = exit},
                              std::chrono::seconds(60));
  support::check_all_well(run.outcomes);
  CHECK(run.differences == std::vector<std::string>(kTwoRanks));
}
