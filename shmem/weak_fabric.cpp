#include "shmem/weak_fabric.hpp"

#include <algorithm>

#include "shmem/hash.hpp"

namespace shmoe::shmem {
namespace {

// How long a core may wait before what it held back arrives all the same.
constexpr Time kLate = std::chrono::milliseconds(200);

constexpr std::uint64_t seed_of(std::uint64_t seed, Rank rank, Core core) {
  return scattered(scattered(scattered(seed) + rank.index()) + core.index());
}

}  // namespace

WeakFabric::WeakFabric(std::unique_ptr<Fabric> next, Rank me, Core core, std::uint64_t seed)
    : next_(std::move(next)), me_(me), random_(seed_of(seed, me, core)) {}

WeakFabric::~WeakFabric() { deliver(std::nullopt); }

void WeakFabric::deliver(std::optional<Rank> dst) {
  for (Held& held : held_) {
    if (held.dst == dst.value_or(held.dst)) next_->put(held.dst, held.to, held.data, held.site);
  }
  std::erase_if(held_, [&](const Held& held) { return held.dst == dst.value_or(held.dst); });
}

bool WeakFabric::overlaps_held(Rank dst, Offset at, std::uint64_t size) const {
  return std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
    return held.dst == dst && held.to.value() < at.value() + size && at.value() < held.to.value() + held.data.size();
  });
}

void WeakFabric::put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) {
  // A core sees its own writes, and two writes to one place keep their order.
  const bool late = dst != me_ && (overlaps_held(dst, to, from.size()) || random_() % 4 != 0);
  if (late) {
    next_->touch(Access::write, dst, to, Bytes{from.size()}, site);  // a range that is none is refused here, not later
    if (held_.empty()) held_since_ = next_->now();
    held_.push_back({dst, to, {from.begin(), from.end()}, site});
  } else {
    next_->put(dst, to, from, site);
  }
}

void WeakFabric::get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) {
  next_->get(src, from, to, site);
}

std::span<const std::byte> WeakFabric::open_read(Rank src, Offset at, Bytes size, SourceSite site) {
  return next_->open_read(src, at, size, site);
}

void WeakFabric::close_read(Rank src, Offset at, Bytes size, SourceSite site) {
  next_->close_read(src, at, size, site);
}

/// Offered for own memory only: elsewhere the caller falls back to a put, which may be late.
std::span<std::byte> WeakFabric::open_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  if (dst != me_) {
    next_->touch(Access::write, dst, at, size, site);
    return {};
  }
  return next_->open_write(dst, at, size, site);
}

void WeakFabric::close_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  next_->close_write(dst, at, size, site);
}

void WeakFabric::signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) {
  next_->signal(dst, slot, op, value, site);
}

void WeakFabric::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op,
                            std::uint64_t value, SourceSite site) {
  if (overlaps_held(dst, to, from.size())) deliver(dst);  // two writes to one place keep their order
  next_->put_signal(dst, to, from, slot, op, value, site);
}

void WeakFabric::fence(Rank dst, SourceSite site) {
  deliver(dst);
  next_->fence(dst, site);
}

void WeakFabric::quiet(SourceSite site) {
  deliver(std::nullopt);
  next_->quiet(site);
}

Result<Arrival> WeakFabric::wait(const WaitSpec& spec, SourceSite site) {
  if (!held_.empty()) {
    WaitSpec impatient = spec;
    impatient.deadline = next_->now() + kLate;
    if (spec.deadline) impatient.deadline = std::min(*impatient.deadline, *spec.deadline);
    Result<Arrival> early = next_->wait(impatient, site);
    deliver(std::nullopt);
    if (early || early.error().code != Errc::deadline) return early;
  }
  return next_->wait(spec, site);
}

std::optional<Arrival> WeakFabric::test(const WaitSpec& spec, SourceSite site) {
  if (!held_.empty() && next_->now() - held_since_ > kLate) deliver(std::nullopt);
  return next_->test(spec, site);
}

void WeakFabric::touch(Access access, Rank owner, Offset at, Bytes size, SourceSite site) {
  next_->touch(access, owner, at, size, site);
}

void WeakFabric::actor(const ActorEvent& event, SourceSite site) {
  if (event.kind == ActorEvent::Kind::leave || event.kind == ActorEvent::Kind::stop) deliver(std::nullopt);
  next_->actor(event, site);
}

Time WeakFabric::now() { return next_->now(); }

}  // namespace shmoe::shmem
