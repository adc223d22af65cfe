#include "runtime/throttled_fabric.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace shmoe::runtime {

using shmem::Arrival;
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
  arrives_[dst.index()] = links_->arrival(dst, Bytes{size}, next_->now());
}

void ThrottledFabric::hold(Time until) {
  for (Time left = until - next_->now(); left > Time{0}; left = until - next_->now()) {
    std::this_thread::sleep_for(left);  // lint: allow(atomics) the pause is the link
  }
}

void ThrottledFabric::put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) {
  send(dst, from.size());
  next_->put(dst, to, from, site);
}
void ThrottledFabric::get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) {
  next_->get(src, from, to, site);
}
std::span<const std::byte> ThrottledFabric::open_read(Rank src, Offset at, Bytes size, SourceSite site) {
  return next_->open_read(src, at, size, site);
}
void ThrottledFabric::close_read(Rank src, Offset at, Bytes size, SourceSite site) {
  next_->close_read(src, at, size, site);
}
std::span<std::byte> ThrottledFabric::open_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  return next_->open_write(dst, at, size, site);
}
void ThrottledFabric::close_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  send(dst, size.value());
  next_->close_write(dst, at, size, site);
}
void ThrottledFabric::signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) {
  next_->signal(dst, slot, op, value, site);
}
void ThrottledFabric::signal_each(std::span<const Rank> dsts, Slot slot, shmem::SignalOp op, std::uint64_t value,
                                  SourceSite site) {
  next_->signal_each(dsts, slot, op, value, site);
}
void ThrottledFabric::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                                 std::uint64_t value, SourceSite site) {
  send(dst, from.size());
  if (dst.index() < arrives_.size()) hold(arrives_[dst.index()]);
  next_->put_signal(dst, to, from, slot, op, value, site);
}
void ThrottledFabric::fence(Rank dst, SourceSite site) {
  if (dst.index() < arrives_.size()) hold(arrives_[dst.index()]);
  next_->fence(dst, site);
}
void ThrottledFabric::quiet(SourceSite site) {
  hold(*std::ranges::max_element(arrives_));
  next_->quiet(site);
}
Result<Arrival> ThrottledFabric::wait(const shmem::WaitSpec& spec, SourceSite site) { return next_->wait(spec, site); }
std::optional<Arrival> ThrottledFabric::test(const shmem::WaitSpec& spec, SourceSite site) {
  return next_->test(spec, site);
}
void ThrottledFabric::touch(shmem::Access access, Rank owner, Offset at, Bytes size, SourceSite site) {
  next_->touch(access, owner, at, size, site);
}
void ThrottledFabric::actor(const shmem::ActorEvent& event, SourceSite site) { next_->actor(event, site); }
Time ThrottledFabric::now() { return next_->now(); }

}  // namespace shmoe::runtime
