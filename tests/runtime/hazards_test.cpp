// The double-barrier overrun of the published protocols, forced by one delay; and flags whose data lies elsewhere.

#include <array>
#include <atomic>
#include <future>

#include "tests/runtime/delayed_fabric.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

struct Run {
  Outcomes outcomes;
  std::vector<Stuck> stuck;
};

/// Notify, dispatch with two barriers, combine, from a fresh region, under the delay.
Run run_iteration(const Profile& profile, const Delay& delay, std::chrono::milliseconds limit) {
  Run run{.outcomes = {}, .stuck = std::vector<Stuck>(static_cast<std::size_t>(delay.ranks))};
  Config config = small_config(1, profile);
  HostBarrier ranks_meet(delay.ranks);
  std::atomic<bool> stopped = false;
  run.outcomes = run_ranks(
      delay.ranks, config,
      [&](World& world) -> Result<void> {
        Communicator& comm = world.all();
        start_from_zero(comm, ranks_meet);
        if (limit.count() > 0) comm.set_wait_limit(limit);
        const std::pair<const char*, int> kernels[] = {{"notify", 1}, {"dispatch", 2}, {"combine", 1}};
        for (const auto& [name, barriers] : kernels) {
          const Result<void> launched = comm.launch(name, [barriers = barriers](CoreContext& context) {
            ZeroBufferSync sync(context);
            for (int b = 0; b < barriers; ++b) sync.barrier_all();
          });
          if (!launched) {
            stopped = true;
            return launched;
          }
        }
        return {};
      },
      [&](std::unique_ptr<shmem::Fabric> next, Rank rank, Core) -> std::unique_ptr<shmem::Fabric> {
        return std::make_unique<DelayedFabric>(std::move(next), delay, rank, run.stuck[rank.index()], stopped);
      });
  return run;
}

/// Only a hang reaches it.
constexpr std::chrono::milliseconds kLimit{60'000};

void check_stuck(const Run& run, Rank rank, std::uint64_t expected, std::uint64_t seen, Rank source) {
  CAPTURE(rank.value());
  const Stuck& stuck = run.stuck[rank.index()];
  CHECK(stuck.expected == expected);
  CHECK(stuck.seen == seen);
  CHECK(stuck.source == source);
}

/// One rank has the proof, with the waits of all; the others say who gave up.
void check_verdicts(const Run& run, std::string_view op_of_rank_0) {
  std::string proof;
  for (const auto& outcome : run.outcomes) {
    REQUIRE(outcome);
    CHECK(outcome->code == Errc::deadlock);
    if (!contains(outcome->context, "gave up: ")) proof = outcome->context;
  }
  CAPTURE(proof);
  CHECK(contains(proof, ": overrun: rank "));
  for (std::size_t rank = 0; rank < run.stuck.size(); ++rank) {
    const Stuck& stuck = run.stuck[rank];
    CHECK(contains(proof, fmt::format("rank {} core 0 in {} round ", rank, rank == 0 ? op_of_rank_0 : "dispatch")));
    CHECK(contains(proof, fmt::format(" from rank {} of rank {} to be == {:#x}, sees {:#x}", stuck.source, rank,
                                      stuck.expected, stuck.seen)));
  }
}

}  // namespace

TEST_CASE("the double barrier of dispatch deadlocks in July's protocol, and the next kernel's in August's") {
  const auto in_parallel = [](const Profile& profile, const Delay& delay) {
    return std::async(std::launch::async, [&profile, delay] { return run_iteration(profile, delay, kLimit); });
  };
  // July: dispatch entry (1,1) and exit (1,2) share buffer 1.
  const Word entry{1, 0x0000000100000001};
  const Word exit{1, 0x0000000100000002};
  auto two = in_parallel(kFaithful202607, {.ranks = 2, .ranks_held = 1, .awaited = entry, .arrived = exit});
  auto three = in_parallel(kFaithful202607, {.ranks = 3, .ranks_held = 2, .awaited = entry, .arrived = exit});
  // August: dispatch exit (1,2) and combine (2,1) share buffer 1.
  const Word combine{1, 0x0000000200000001};
  auto two_later = in_parallel(kFaithful202608, {.ranks = 2, .ranks_held = 1, .awaited = exit, .arrived = combine});
  auto three_later = in_parallel(kFaithful202608, {.ranks = 3, .ranks_held = 2, .awaited = exit, .arrived = combine});

  {  // S1, two ranks
    const Run run = two.get();
    check_stuck(run, Rank{0}, exit.value, entry.value, Rank{1});
    check_stuck(run, Rank{1}, entry.value, exit.value, Rank{0});
    check_verdicts(run, "dispatch");
  }
  {  // S1: the third rank is stuck in the first barrier too
    const Run run = three.get();
    check_stuck(run, Rank{0}, exit.value, entry.value, Rank{1});
    check_stuck(run, Rank{1}, entry.value, exit.value, Rank{0});
    check_stuck(run, Rank{2}, entry.value, exit.value, Rank{0});
    check_verdicts(run, "dispatch");
  }
  {  // S2, two ranks
    const Run run = two_later.get();
    check_stuck(run, Rank{0}, combine.value, exit.value, Rank{1});
    check_stuck(run, Rank{1}, exit.value, combine.value, Rank{0});
    check_verdicts(run, "combine");
  }
  {  // S2, three ranks
    const Run run = three_later.get();
    check_stuck(run, Rank{0}, combine.value, exit.value, Rank{1});
    check_stuck(run, Rank{1}, exit.value, combine.value, Rank{0});
    check_stuck(run, Rank{2}, exit.value, combine.value, Rank{0});
    check_verdicts(run, "combine");
  }
}

TEST_CASE("in safe the same delays do no harm") {
  // Words count barriers: notify 1, dispatch entry 2, dispatch exit 3, combine 4.
  const Word entry{0, 0x200};
  const Word exit{1, 0x300};
  const Word combine{0, 0x400};
  for (const std::int32_t ranks : {2, 3}) {
    const auto none = std::chrono::milliseconds(0);
    check_all_well(
        run_iteration(kSafe, {.ranks = ranks, .ranks_held = 1, .awaited = entry, .arrived = exit}, none).outcomes);
    check_all_well(
        run_iteration(kSafe, {.ranks = ranks, .ranks_held = ranks - 1, .awaited = exit, .arrived = combine}, none)
            .outcomes);
  }
}

TEST_CASE("a flag covers what was sent to other ranks than the one it is set on") {
  constexpr std::uint32_t kRounds = 10;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Config config = small_config(1);
    config.weak_seed = seed;
    std::array<std::uint64_t, kRounds> seen{};
    check_all_well(run_ranks(3, config, [&](World& world) -> Result<void> {
      Communicator& comm = world.all();
      const Result<Offset> at = comm.allocate(Bytes{64 * kRounds});
      if (!at) return at.error();
      if (Result<void> met = comm.barrier(); !met) return met;
      return comm.launch("relay", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          const Offset place = *at + Bytes{64 * round};
          const std::uint64_t value = 1000 * seed + round;
          if (context.rank() == Rank{0}) {
            context.put(Rank{2}, place, std::span{&value, 1});
            sync.set_flag(Rank{1}, 0, round + 1);
            sync.wait_flag(Rank{1}, 0, round + 1).ordering_only();  // sends nothing before rank 1 has looked
          }
          if (context.rank() == Rank{1}) {
            const shmem::Witness sent = consume_token(sync.wait_flag(Rank{0}, 0, round + 1));
            context.get(Rank{2}, place, std::span{&seen[round], 1}, sent);
            sync.set_flag(Rank{0}, 0, round + 1);
          }
        }
        sync.barrier_all();
      });
    }));
    for (std::uint32_t round = 0; round < kRounds; ++round) CHECK(seen[round] == 1000 * seed + round);
  }
}
