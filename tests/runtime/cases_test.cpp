// Faults that users of systems like this one reported, as small inputs below the operators. The numbers are those of the
// case list.

#include <array>
#include <atomic>
#include <thread>

#include "tests/runtime/pausing_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::SignalOp;

namespace {

constexpr std::int32_t kGridSide = 2;

Slot flag_from(const CoreContext& context, Rank source, std::uint64_t buffer = 0) {
  return context.slots().flag().at(buffer, source);
}

void tell(CoreContext& context, Rank to, std::uint64_t value, std::uint64_t buffer = 0) {
  context.signal(to, flag_from(context, context.rank(), buffer), SignalOp::set, value);
}

void hear(CoreContext& context, Rank from, std::uint64_t value, std::uint64_t buffer = 0) {
  context.wait(flag_from(context, from, buffer), Compare::at_least, value).ordering_only();
}

/// Two ranks exchange a flag of the buffer.
Result<void> exchange(Communicator& comm, const char* op, std::uint64_t buffer) {
  return comm.launch(op, [buffer](CoreContext& context) {
    const Rank peer{1 - context.rank().value()};
    tell(context, peer, 1, buffer);
    hear(context, peer, 1, buffer);
  });
}

/// The same kernels in another order on rank 1.
template <class First, class Second>
Result<void> in_order_of(Rank rank, const First& first, const Second& second) {
  if (rank == Rank{0}) {
    if (Result<void> done = first(); !done) return done;
    return second();
  }
  if (Result<void> done = second(); !done) return done;
  return first();
}

}  // namespace

TEST_CASE("T13: two cores wait for one signal, and both go on, 1000 times") {
  Config config = small_config(3);
  check_all_well(run_ranks(4, config, [](World& world) {
    return world.all().launch("count", [](CoreContext& context) {
      const Rank next{(context.rank().value() + 1) % context.ranks()};
      const Rank before{(context.rank().value() + context.ranks() - 1) % context.ranks()};
      for (std::uint64_t round = 1; round <= 1000; ++round) {
        if (context.core() == Core{0}) tell(context, next, round);
        if (context.core() != Core{0}) hear(context, before, round);
        if (round % 100 == 0) context.sync_all();
      }
    });
  }));
}

TEST_CASE("T74: barriers of rows and of columns side by side are no barrier of all; the barrier of all is one") {
  constexpr std::int32_t kRanks = kGridSide * kGridSide;
  std::atomic<bool> first_has_left = false;
  std::atomic<int> arrived = 0;
  const Outcomes outcomes = run_ranks(kRanks, small_config(1), [&](World& world) -> Result<void> {
    // The last rank comes when the first one has left, which a barrier of all would not let it.
    const bool late = world.rank() == Rank{kRanks - 1};
    while (late && !first_has_left) std::this_thread::yield();
    const Result<void> crossed = world.all().launch("rows and columns", [](CoreContext& context) {
      const std::int64_t me = context.rank().value();
      const Rank beside{me ^ 1};
      const Rank below{me ^ kGridSide};
      tell(context, beside, 1);
      tell(context, below, 1);
      hear(context, beside, 1);
      hear(context, below, 1);
    });
    if (!crossed) return crossed;
    if (world.rank() == Rank{0}) first_has_left = true;
    ++arrived;
    if (Result<void> met = world.all().barrier(); !met) return met;
    CHECK(arrived == kRanks);
    return {};
  });
  check_all_well(outcomes);
}

TEST_CASE("T77: two operators that ranks enter in different order, without a handshake: the verdict names both") {
  std::string proof;
  for (const std::optional<Error>& outcome : run_ranks(2, small_config(1), [](World& world) {
         return in_order_of(
             world.rank(), [&] { return exchange(world.all(), "batch A", 0); },
             [&] { return exchange(world.all(), "batch B", 1); });
       })) {
    REQUIRE(outcome);
    CHECK(outcome->code == Errc::deadlock);
    if (!contains(outcome->context, "gave up: ")) proof = outcome->context;
  }
  CAPTURE(proof);
  CHECK(contains(proof, "deadlock cycle"));
  CHECK(
      contains(proof,
               "\n  cause: operator order differs: operator 2 of the communicator is batch A on rank 0 and batch B on "
               "rank 1"));
}

TEST_CASE("T112: communicators are made, and all of their members meet at once, 1000 times") {
  constexpr std::int32_t kIds = 64;
  Config config = small_config(1);
  config.communicators = kIds;
  for (int job = 0; job < 16; ++job) {
    check_all_well(run_ranks(4, config, [](World& world) -> Result<void> {
      for (std::int32_t id = 1; id < kIds; ++id) {
        const std::int64_t me = world.rank().value();
        const std::int64_t other = me ^ (id % 2 == 0 ? 1 : 2);
        const std::array members{Rank{std::min(me, other)}, Rank{std::max(me, other)}};
        const Result<Communicator*> half = world.communicator(CommunicatorId{id}, members);
        if (!half) return half.error();
        if (Result<void> met = (*half)->barrier(); !met) return met;
        if (Result<void> met = world.all().barrier(); !met) return met;
      }
      return {};
    }));
  }
}

TEST_CASE("T113: an all-gather in place: every rank puts its part from where it belongs") {
  constexpr std::size_t kWords = 1500;
  for (const std::int32_t cores : {1, 3}) {
    for (const std::uint64_t weak_seed : {0U, 5U}) {
      CAPTURE(cores);
      CAPTURE(weak_seed);
      Config config = small_config(cores);
      config.weak_seed = weak_seed;
      check_all_well(run_ranks(4, config, [](World& world) -> Result<void> {
        Communicator& comm = world.all();
        const Result<Offset> table = comm.allocate(Bytes{8 * 4 * kWords});
        if (!table) return table.error();
        const auto words = comm.local<std::uint64_t>(*table, 4 * kWords);
        const std::size_t first = comm.rank().index() * kWords;
        for (std::size_t i = 0; i < kWords; ++i) words[first + i] = first + i;
        const Result<void> gathered = comm.launch("all-gather", [&](CoreContext& context) {
          ZeroBufferSync sync(context);
          const Slice mine = context.slice(kWords);
          const auto part = std::span<const std::uint64_t>(words).subspan(
              first + static_cast<std::size_t>(mine.first), static_cast<std::size_t>(mine.last - mine.first));
          const Offset to = *table + Bytes{8 * (first + static_cast<std::size_t>(mine.first))};
          for (Rank dst{0}; dst.value() < context.ranks(); ++dst) context.put(dst, to, part);
          sync.barrier_all();
        });
        for (std::size_t i = 0; i < words.size(); ++i) {
          if (words[i] != i) return Error{.code = Errc::mismatch, .context = fmt::format("word {} is {}", i, words[i])};
        }
        return gathered;
      }));
    }
  }
}
