// Waits that can never end, in ranks that are threads: the verdict comes long before the limit of the waits, the rank that
// has the proof says all of it, and the others say who found it.

#include "runtime/diagnosis/prover.hpp"

#include <array>
#include <atomic>

#include "tests/runtime/pausing_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::SignalOp;

namespace {

Slot flag(const CoreContext& context, Rank from) { return context.slots().flag().at(0, from); }

void wait_for(CoreContext& context, Rank from) {
  context.wait(flag(context, from), Compare::at_least, 1).ordering_only();
}

void notify(CoreContext& context, Rank to) { context.signal(to, flag(context, context.rank()), SignalOp::set, 1); }

/// The error of the rank that has the proof; all others name it.
std::string proof_in(const Outcomes& outcomes) {
  std::string proof;
  for (const std::optional<Error>& outcome : outcomes) {
    REQUIRE(outcome.has_value());
    CHECK(outcome->code == Errc::deadlock);
    if (contains(outcome->context, "gave up: ")) continue;
    CHECK(proof.empty());
    proof = outcome->context;
  }
  return proof;
}

}  // namespace

TEST_CASE("prover: a ring of waits is a deadlock cycle, of any length") {
  for (const std::int32_t ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const Outcomes outcomes = run_ranks(ranks, small_config(1), [&](World& world) {
      return world.all().launch("ring", [&](CoreContext& context) {
        wait_for(context, Rank{(context.rank().value() + 1) % ranks});
        notify(context, Rank{(context.rank().value() + ranks - 1) % ranks});
      });
    });
    const std::string proof = proof_in(outcomes);
    CHECK(contains(proof, "ring: deadlock cycle: every core waits for a signal that only a waiting core could send"));
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      CHECK(contains(proof, fmt::format("rank {} core 0 in ring round 0 waits at prover_test.cpp:", rank)));
      CHECK(contains(
          proof, fmt::format("for flag[0] from rank {} of rank {} to be >= 0x1, sees 0x0; may be written by rank {}",
                             (rank + 1) % ranks, rank, (rank + 1) % ranks)));
    }
  }
}

TEST_CASE("prover: two cores that meet at different SyncAlls") {
  const Outcomes outcomes = run_ranks(2, small_config(2), [](World& world) {
    return world.all().launch("uneven", [](CoreContext& context) {
      context.sync_all();
      if (context.core() == Core{0} && context.rank() == Rank{0}) context.sync_all();
      if (context.rank() == Rank{1}) wait_for(context, Rank{0});
    });
  });
  const std::string proof = proof_in(outcomes);
  CHECK(contains(proof,
                 "uneven: SyncAll mismatch: rank 0 core 0 waits in a SyncAll of uneven that not every core of its "
                 "rank has come to"));
}

TEST_CASE("prover: an operator that one rank leaves out") {
  const Outcomes outcomes = run_ranks(3, small_config(1), [](World& world) -> Result<void> {
    if (world.rank() != Rank{2}) {
      const auto left = world.all().launch("first", [](CoreContext& context) { wait_for(context, Rank{2}); });
      if (!left) return left;
    }
    return world.all().launch("second", [](CoreContext& context) {
      if (context.rank() != Rank{2}) return notify(context, Rank{2});
      wait_for(context, Rank{0});
      notify(context, Rank{0});
      notify(context, Rank{1});
    });
  });
  const std::string proof = proof_in(outcomes);
  CHECK(contains(proof, "rank 0 core 0 in first round 0 waits"));
  CHECK(contains(proof, "rank 2 core 0 in second round 0 waits"));
}

TEST_CASE("prover: any of several slots") {
  const Outcomes outcomes = run_ranks(3, small_config(1), [](World& world) {
    return world.all().launch("any", [](CoreContext& context) {
      std::vector<Slot> slots;
      for (Rank rank{0}; rank.value() < 3; ++rank) {
        if (rank != context.rank()) slots.push_back(flag(context, rank));
      }
      context.wait({.where = context.rank(), .slots = slots, .match = shmem::Match::any, .value = 1}).ordering_only();
    });
  });
  CHECK(contains(proof_in(outcomes), "any of 2 slots from flag[0] from rank 1 of rank 0 on to be >= 0x1"));
}

TEST_CASE("prover: who still runs may end all waits, however long it takes") {
  std::atomic<int> looks = 0;
  const Outcomes outcomes = run_ranks(3, small_config(1), [&](World& world) {
    return world.all().launch("late", [&](CoreContext& context) {
      if (context.rank() == Rank{2}) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(600);
        while (std::chrono::steady_clock::now() < end) ++looks;
        notify(context, Rank{0});
        return;
      }
      wait_for(context, Rank{context.rank() == Rank{0} ? 2 : 0});
      if (context.rank() == Rank{0}) notify(context, Rank{1});
    });
  });
  check_all_well(outcomes);
}

TEST_CASE("prover: a host that is busy between operators may call the next") {
  const Outcomes outcomes = run_ranks(2, small_config(2), [&](World& world) {
    if (world.rank() == Rank{1}) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(600);
      while (std::chrono::steady_clock::now() < end) {
      }
    }
    return world.all().launch("meet", [](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.barrier_all();
    });
  });
  check_all_well(outcomes);
}

TEST_CASE("prover: nothing is proven of healthy rounds with pauses at every signal") {
  const std::uint64_t seed = shmoe::test::seed_of_run();
  CAPTURE(seed);
  const Outcomes outcomes = run_ranks(
      5, small_config(3),
      [](World& world) {
        return world.all().launch("rounds", [](CoreContext& context) {
          ZeroBufferSync sync(context);
          for (int round = 0; round < 60; ++round) sync.barrier_all();
        });
      },
      shmoe::test::pauses(seed));
  check_all_well(outcomes);
}

TEST_CASE("verdict: of many waits the first are shown, and how many there are more") {
  Verdict verdict{.kind = VerdictKind::deadlock_cycle, .text = "all wait", .stuck = {}};
  for (int rank = 0; rank < 20; ++rank) {
    verdict.stuck.push_back({.rank = Rank{rank},
                             .core = Core{0},
                             .op = "ring",
                             .round = Round{1},
                             .what = "a flag",
                             .site = "ring.cpp:1",
                             .writers = {Rank{3}}});
  }
  const std::string text = to_string(verdict);
  CHECK(text.starts_with(
      "deadlock cycle: all wait\n  rank 0 core 0 in ring round 1 waits at ring.cpp:1 for a flag; may be "
      "written by rank 3\n"));
  CHECK(contains(text, "\n  rank 15 core 0 "));
  CHECK(!contains(text, "rank 16 core 0 "));
  CHECK(text.ends_with("\n  and 4 more waits"));
  verdict.stuck.resize(16);
  CHECK(!contains(to_string(verdict), "more"));
}
