#include "runtime/throttled_fabric.hpp"

#include <algorithm>
#include <chrono>

namespace shmoe::runtime {

using shmem::Time;

namespace {

/// Of a link so slow that its times are beyond what Time can hold.
constexpr Time kForever = Time::max() / 4;

}  // namespace

Time RankLinks::arrival(Rank dst, Bytes size, Time now) {
  const std::chrono::duration<double> carried(speeds_.seconds(rank_, dst, size));
  const Time takes = carried < kForever ? std::chrono::duration_cast<Time>(carried) : kForever;
  const std::lock_guard lock(mutex_);
  Time& free_at = free_at_[dst.index()];
  free_at = std::min(std::max(free_at, now) + takes, kForever);
  return free_at;
}

void ThrottledFabric::send(Rank dst, std::size_t size) {
  if (dst.index() >= arrives_.size()) return;  // refused by the next one
  arrives_[dst.index()] = links_->arrival(members_[dst.index()], Bytes{size}, now());
}

void ThrottledFabric::hold(Time until, SourceSite site) {
  if (until > now()) pause_.until(until, site);
}

void ThrottledFabric::put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) {
  if (to == abort_text_) std::ranges::fill(arrives_, Time{0});
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
  if (dst.index() < arrives_.size()) hold(arrives_[dst.index()], site);
  PassingFabric::put_signal(dst, to, from, slot, op, value, site);
}

void ThrottledFabric::fence(Rank dst, SourceSite site) {
  if (dst.index() < arrives_.size()) hold(arrives_[dst.index()], site);
  PassingFabric::fence(dst, site);
}

void ThrottledFabric::quiet(SourceSite site) {
  hold(*std::ranges::max_element(arrives_), site);
  PassingFabric::quiet(site);
}

}  // namespace shmoe::runtime
