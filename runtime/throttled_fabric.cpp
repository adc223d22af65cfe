#include "runtime/throttled_fabric.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace shmoe::runtime {

using shmem::Time;

Time RankLinks::arrival(Rank dst, Bytes size, Time now) {
  const std::chrono::duration<double> carried(speeds_.seconds(rank_, dst, size));
  const std::lock_guard lock(mutex_);
  Time& free_at = free_at_[dst.index()];
  free_at = std::max(free_at, now) + std::chrono::duration_cast<Time>(carried);
  return free_at;
}

void ThrottledFabric::send(Rank dst, std::size_t size) {
  if (dst.index() >= arrives_.size()) return;  // refused by the next one
  arrives_[dst.index()] = links_->arrival(dst, Bytes{size}, now());
}

void ThrottledFabric::hold(Time until) {
  for (Time left = until - now(); left > Time{0}; left = until - now()) {
    std::this_thread::sleep_for(left);  // lint: allow(atomics) the pause is the link
  }
}

void ThrottledFabric::put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) {
  send(dst, from.size());
  PassingFabric::put(dst, to, from, site);
}

void ThrottledFabric::close_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  send(dst, size.value());
  PassingFabric::close_write(dst, at, size, site);
}

void ThrottledFabric::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                                 std::uint64_t value, SourceSite site) {
  send(dst, from.size());
  if (dst.index() < arrives_.size()) hold(arrives_[dst.index()]);
  PassingFabric::put_signal(dst, to, from, slot, op, value, site);
}

void ThrottledFabric::fence(Rank dst, SourceSite site) {
  if (dst.index() < arrives_.size()) hold(arrives_[dst.index()]);
  PassingFabric::fence(dst, site);
}

void ThrottledFabric::quiet(SourceSite site) {
  hold(*std::ranges::max_element(arrives_));
  PassingFabric::quiet(site);
}

}  // namespace shmoe::runtime
