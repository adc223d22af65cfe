// Waits that end through no communicator: ranks that are stuck in several of them at once.

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/diagnosis/prover.hpp"
#include "tests/runtime/pausing_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

std::vector<Rank> world_ranks(std::initializer_list<int> values) {
  std::vector<Rank> ranks;
  for (const int value : values) ranks.emplace_back(value);
  return ranks;
}

/// Those of the communicators that a rank is in, by number.
using Batches = std::map<int, Communicator*>;

Result<Batches> make_batches(World& world, const std::map<int, std::vector<Rank>>& lists) {
  Batches batches;
  for (const auto& [id, members] : lists) {
    if (std::ranges::find(members, world.rank()) == members.end()) continue;
    const Result<Communicator*> made = world.communicator(CommunicatorId{id}, members);
    if (!made) return made.error();
    batches[id] = *made;
  }
  if (Result<void> met = world.all().barrier(); !met) return std::move(met).error();
  return batches;
}

/// All members meet.
Result<void> meet(Communicator& comm, const std::string& op) {
  return comm.launch(op, [](CoreContext& context) {
    ZeroBufferSync sync(context);
    sync.barrier_all();
  });
}

/// The error of the rank that has the proof; all others name it.
std::string proof_of(const Outcomes& outcomes) {
  std::string proof;
  for (const std::optional<Error>& outcome : outcomes) {
    REQUIRE(outcome.has_value());
    CAPTURE(outcome->context);
    CHECK(outcome->code == Errc::deadlock);
    if (contains(outcome->context, "gave up: ")) continue;
    CHECK(proof.empty());
    proof = outcome->context;
  }
  return proof;
}

/// What each rank calls, in its order.
using Orders = std::vector<std::vector<int>>;

Outcomes run_orders(const std::map<int, std::vector<Rank>>& lists, const Orders& orders, std::int32_t cores = 1,
                    const FabricDecorator& decorate = {}) {
  return run_ranks(
      static_cast<std::int32_t>(orders.size()), small_config(cores),
      [&](World& world) -> Result<void> {
        const Result<Batches> batches = make_batches(world, lists);
        if (!batches) return batches.error();
        for (const int id : orders[world.rank().index()]) {
          if (Result<void> done = meet(*batches->at(id), fmt::format("batch {}", id)); !done) return done;
        }
        return {};
      },
      decorate);
}

}  // namespace

TEST_CASE("T77: two communicators that two ranks enter in different order: the verdict names both") {
  const auto both = world_ranks({0, 1});
  const std::string proof = proof_of(run_orders({{1, both}, {2, both}}, {{1, 2}, {2, 1}}));
  CAPTURE(proof);
  CHECK(contains(
      proof,
      "batch 1: deadlock cycle: world ranks wait for each other through several communicators: rank 0 waits in "
      "batch 1, operator 2 of communicator 1 of world ranks 0 1, for rank 1; rank 1 waits in batch 2, operator 2 "
      "of communicator 2 of world ranks 0 1, for rank 0\n"));
  CHECK(contains(
      proof,
      "\n  cause: operator order differs: rank 1 is in batch 2 of communicator 2 of world ranks 0 1 and has not "
      "come to batch 1 of communicator 1 of world ranks 0 1, where rank 0 waits for it; rank 0 is in batch 1 of "
      "communicator 1 of world ranks 0 1 and has not come to batch 2 of communicator 2 of world ranks 0 1, where "
      "rank 1 waits for it\n  what to do: call the same operators in the same order on every rank, through all "
      "of its communicators\n"));
  CHECK(contains(proof, "\n  communicator 1 of world ranks 0 1: rank 0 core 0 in batch 1 round 1 waits at "));
  CHECK(contains(proof, "\n  communicator 2 of world ranks 0 1: rank 1 core 0 in batch 2 round 1 waits at "));
  CHECK(contains(proof, "\n  proven "));
}

TEST_CASE("T77: of three ranks one enters two communicators in another order, on several cores") {
  const auto all = world_ranks({2, 0, 1});
  const std::string proof = proof_of(run_orders({{1, all}, {2, all}}, {{1, 2}, {1, 2}, {2, 1}}, 2));
  CAPTURE(proof);
  CHECK(contains(proof,
                 "cause: operator order differs: rank 2 is in batch 2 of communicator 2 of world ranks 2 0 1 and "
                 "has not come to batch 1 of communicator 1 of world ranks 2 0 1, where rank 0 waits for it"));
}

TEST_CASE("prover: a ring through three communicators, of which no rank is in all") {
  const std::string proof = proof_of(run_orders(
      {{1, world_ranks({0, 1})}, {2, world_ranks({1, 2})}, {3, world_ranks({2, 0})}}, {{1, 3}, {2, 1}, {3, 2}}));
  CAPTURE(proof);
  CHECK(contains(
      proof,
      "rank 0 waits in batch 1, operator 2 of communicator 1 of world ranks 0 1, for rank 1; rank 1 waits in "
      "batch 2, operator 2 of communicator 2 of world ranks 1 2, for rank 2; rank 2 waits in batch 3, operator 2 "
      "of communicator 3 of world ranks 2 0, for rank 0"));
  CHECK(contains(proof, "\n  communicator 2 of world ranks 1 2: rank 1 core 0 in batch 2 round 1 waits at "));
  CHECK(contains(proof, " from rank 2 of rank 1 to be "));
  CHECK(contains(proof, "\n  communicator 3 of world ranks 2 0: rank 2 core 0 in batch 3 round 1 waits at "));
  CHECK(contains(proof, " from rank 0 of rank 2 to be "));
  CHECK(contains(proof, "; may be written by rank 0; rank 0 never signalled it"));
  CHECK(!contains(proof, "members of"));
  CHECK(contains(proof, "operator order differs"));
}

TEST_CASE("prover: communicators that are made in different order") {
  const auto both = world_ranks({0, 1});
  const Outcomes outcomes = run_ranks(2, small_config(1), [&](World& world) -> Result<void> {
    const int first = world.rank() == Rank{0} ? 1 : 2;
    for (const int id : {first, 3 - first}) {
      if (const Result<Communicator*> made = world.communicator(CommunicatorId{id}, both); !made) return made.error();
    }
    return {};
  });
  const std::string proof = proof_of(outcomes);
  CAPTURE(proof);
  CHECK(contains(proof, "creating communicator 1: barrier: deadlock cycle: world ranks wait for each other"));
}

TEST_CASE("prover: a communicator that is stuck by itself says why, and who waits in another one follows") {
  const std::map<int, std::vector<Rank>> lists{{1, world_ranks({1, 2})}, {2, world_ranks({0, 1})}};
  const Outcomes outcomes = run_ranks(3, small_config(1), [&](World& world) -> Result<void> {
    const Result<Batches> batches = make_batches(world, lists);
    if (!batches) return batches.error();
    if (world.rank() == Rank{0}) return meet(*batches->at(2), "follower");
    return batches->at(1)->launch("ring", [](CoreContext& context) {
      const Rank peer{1 - context.rank().value()};
      const auto& flag = context.slots().flag();
      context.wait(flag.at(0, peer), Compare::at_least, 1).ordering_only();
      context.signal(peer, flag.at(0, context.rank()), shmem::SignalOp::set, 1);
    });
  });
  const std::string proof = proof_of(outcomes);
  CAPTURE(proof);
  CHECK(contains(proof, "communicator 1 of world ranks 1 2: deadlock cycle: every core waits for a signal that only"));
  CHECK(contains(proof, "\n  cause: wait before notify: "));
  CHECK(contains(proof, "\n  communicator 2 of world ranks 0 1: rank 0 core 0 in follower round 1 waits at "));
  CHECK(contains(proof,
                 "\n  ranks in lines that name no communicator are members of communicator 1 of world ranks 1 2, "
                 "from 0 in that order"));
}

TEST_CASE("prover: who waits in one communicator for a rank that runs in another one is not stuck") {
  const auto both = world_ranks({0, 1});
  check_all_well(run_ranks(2, small_config(1), [&](World& world) -> Result<void> {
    const Result<Batches> batches = make_batches(world, {{1, both}, {2, both}});
    if (!batches) return batches.error();
    if (world.rank() == Rank{1}) {
      const Result<void> done = batches->at(2)->launch("long", [](CoreContext&) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
        while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
      });
      if (!done) return done;
    }
    return meet(*batches->at(1), "short");
  }));
}

// One thread of rank 0 is in a launch that waits; another one runs, and calls no launch before the first has ended.
TEST_CASE("prover: a host between operators lets all communicators of its rank go on, whatever its other threads do") {
  const auto both = world_ranks({0, 1});
  std::atomic<bool> first_waits = false;
  check_all_well(run_ranks(2, small_config(1), [&](World& world) -> Result<void> {
    const Result<Batches> batches = make_batches(world, {{1, both}, {2, both}});
    if (!batches) return batches.error();
    if (world.rank() == Rank{1}) {
      while (!first_waits) std::this_thread::yield();
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (Result<void> done = meet(*batches->at(1), "first"); !done) return done;
      return meet(*batches->at(2), "second");
    }
    Result<void> first;
    std::mutex in_turn;
    std::thread other([&] {
      const std::lock_guard lock(in_turn);
      first_waits = true;
      first = meet(*batches->at(1), "first");
    });
    while (!first_waits) std::this_thread::yield();
    Result<void> second;
    {
      const std::lock_guard lock(in_turn);
      second = meet(*batches->at(2), "second");
    }
    other.join();
    return first ? second : first;
  }));
}

// The other thread is refused for as long as the launch waits, so what it would do ends no wait either.
TEST_CASE("prover: a second thread cannot begin in one communicator what the first one waits for in another") {
  const auto both = world_ranks({0, 1});
  std::atomic<int> refused = 0;
  const Outcomes outcomes = run_ranks(2, small_config(1), [&](World& world) -> Result<void> {
    const Result<Batches> batches = make_batches(world, {{1, both}, {2, both}});
    if (!batches) return batches.error();
    if (world.rank() == Rank{1}) return meet(*batches->at(2), "second");
    std::atomic<bool> in_first = false;
    std::thread other([&] {
      while (!in_first) std::this_thread::yield();
      try {
        static_cast<void>(meet(*batches->at(2), "second"));
      } catch (const ContractViolation&) {
        ++refused;
      }
    });
    const Result<void> first = batches->at(1)->launch("first", [&](CoreContext& context) {
      in_first = true;
      while (refused == 0) std::this_thread::yield();
      ZeroBufferSync sync(context);
      sync.barrier_all();
    });
    other.join();
    return first;
  });
  CHECK(refused == 1);
  CHECK(contains(proof_of(outcomes),
                 "rank 0 waits in first, operator 2 of communicator 1 of world ranks 0 1, for rank 1"));
}

TEST_CASE("prover: nothing is proven of healthy rounds through three communicators with pauses at every signal") {
  const std::uint64_t seed = shmoe::test::seed_of_run();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<int> order;
  for (int round = 0; round < 60; ++round) order.push_back(1 + static_cast<int>(random() % 3));
  const std::map<int, std::vector<Rank>> lists{
      {1, world_ranks({0, 1, 2})}, {2, world_ranks({3, 1, 2})}, {3, world_ranks({3, 0})}};
  Orders orders(4);
  for (const int id : order) {
    for (const Rank member : lists.at(id)) orders[member.index()].push_back(id);
  }
  check_all_well(run_orders(lists, orders, 2, shmoe::test::pauses(seed)));
}

TEST_CASE("prover: nothing is proven of two threads of each rank that take turns on two communicators") {
  const std::uint64_t seed = shmoe::test::seed_of_run();
  CAPTURE(seed);
  const auto all = world_ranks({0, 1, 2});
  check_all_well(run_ranks(
      3, small_config(2),
      [&](World& world) -> Result<void> {
        const Result<Batches> batches = make_batches(world, {{1, all}, {2, all}});
        if (!batches) return batches.error();
        std::mutex grid;
        std::atomic<int> round = 0;  // the same order on all ranks
        Result<void> failed;
        const auto work = [&](int id) {
          for (int own = id - 1; own < 80; own += 2) {
            while (round != own) std::this_thread::yield();
            const std::lock_guard lock(grid);
            const Result<void> done = failed ? meet(*batches->at(id), "turn") : failed;
            if (!done) failed = done;
            ++round;
          }
        };
        std::thread other([&] { work(2); });
        work(1);
        other.join();
        return failed;
      },
      shmoe::test::pauses(seed + 1)));
}

TEST_CASE("prover: communicators with one number and no common member are told apart") {
  // Were the two taken for one, rank 1 would seem to wait for rank 3, and rank 3 for rank 1.
  const auto of = [](Rank rank) {
    return rank == Rank{0} || rank == Rank{3} ? world_ranks({0, 3}) : world_ranks({1, 2});
  };
  check_all_well(run_ranks(4, small_config(1), [&](World& world) -> Result<void> {
    const Result<Communicator*> half = world.communicator(CommunicatorId{1}, of(world.rank()));
    if (!half) return half.error();
    if (world.rank() == Rank{0} || world.rank() == Rank{2}) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
    return meet(**half, "half");
  }));
}
