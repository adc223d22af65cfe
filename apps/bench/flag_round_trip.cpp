#include "apps/bench/flag_round_trip.hpp"

#include <atomic>  // lint: allow(atomics) what the barrier is compared with goes past every part of ours

#include <sched.h>

namespace shmoe::apps {
namespace {

/// Past so many looks the two are taken to share a CPU.
constexpr int kLooks = 10'000;

using Flag = std::atomic_ref<std::uint64_t>;  // lint: allow(atomics) as above

void await(Flag flag, std::uint64_t value) {
  int looks = 0;
  while (flag.load(std::memory_order_acquire) != value) {
    if (++looks < kLooks) continue;
    ::sched_yield();  // lint: allow(atomics) as above
    looks = 0;
  }
}

}  // namespace

void FlagRoundTrip::run(std::int64_t rounds) {
  const auto flag_of = [&](Rank rank) {
    auto* place = const_cast<std::byte*>(comm_->mapped_at(rank, at_));  // mapped for writing, as for every put
    return Flag{*reinterpret_cast<std::uint64_t*>(place)};
  };
  const bool first = comm_->rank() == Rank{0};
  const Flag mine = flag_of(comm_->rank());
  const Flag theirs = flag_of(first ? Rank{1} : Rank{0});
  for (std::int64_t round = 0; round < rounds; ++round) {
    ++last_;
    if (!first) await(mine, last_);
    theirs.store(last_, std::memory_order_release);
    if (first) await(mine, last_);
  }
}

}  // namespace shmoe::apps
