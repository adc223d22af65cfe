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
    : PassingFabric(std::move(next)), me_(me), random_(seed_of(seed, me, core)) {}

WeakFabric::~WeakFabric() { deliver(std::nullopt); }

void WeakFabric::deliver(std::optional<Rank> dst) {
  for (Held& held : held_) {
    if (held.dst == dst.value_or(held.dst)) next().put(held.dst, held.to, held.data, held.site);
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
    next().touch(Access::write, dst, to, Bytes{from.size()}, site);  // a range that is none is refused here, not later
    if (held_.empty()) held_since_ = next().now();
    held_.push_back({dst, to, {from.begin(), from.end()}, site});
  } else {
    next().put(dst, to, from, site);
  }
}

/// Offered for own memory only: elsewhere the caller falls back to a put, which may be late.
std::span<std::byte> WeakFabric::open_write(Rank dst, Offset at, Bytes size, SourceSite site) {
  if (dst != me_) {
    next().touch(Access::write, dst, at, size, site);
    return {};
  }
  return next().open_write(dst, at, size, site);
}

void WeakFabric::put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op,
                            std::uint64_t value, SourceSite site) {
  if (overlaps_held(dst, to, from.size())) deliver(dst);  // two writes to one place keep their order
  next().put_signal(dst, to, from, slot, op, value, site);
}

void WeakFabric::fence(Rank dst, SourceSite site) {
  deliver(dst);
  next().fence(dst, site);
}

void WeakFabric::quiet(SourceSite site) {
  deliver(std::nullopt);
  next().quiet(site);
}

Result<Arrival> WeakFabric::wait(const WaitSpec& spec, SourceSite site) {
  if (!held_.empty()) {
    WaitSpec impatient = spec;
    impatient.deadline = next().now() + kLate;
    if (spec.deadline) impatient.deadline = std::min(*impatient.deadline, *spec.deadline);
    Result<Arrival> early = next().wait(impatient, site);
    deliver(std::nullopt);
    if (early || early.error().code != Errc::deadline) return early;
  }
  return next().wait(spec, site);
}

std::optional<Arrival> WeakFabric::test(const WaitSpec& spec, SourceSite site) {
  if (!held_.empty() && next().now() - held_since_ > kLate) deliver(std::nullopt);
  return next().test(spec, site);
}

void WeakFabric::actor(const ActorEvent& event, SourceSite site) {
  if (event.kind == ActorEvent::Kind::leave || event.kind == ActorEvent::Kind::stop) deliver(std::nullopt);
  next().actor(event, site);
}

}  // namespace shmoe::shmem
