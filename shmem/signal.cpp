#include "shmem/signal.hpp"

#include <algorithm>

#include "shmem/hash.hpp"

namespace shmoe::shmem {

SlotPlan SlotPlan::of_block(const BlockMap& map) {
  const auto ranks = static_cast<std::uint32_t>(map.shape.ranks);
  const auto slots = static_cast<std::uint32_t>(map.shape.slots);
  SlotPlan plan(map.shape.ranks, map.shape.cores);
  plan.declare({.name = "barrier", .base = map.barrier.at, .buffers = 2, .sources = ranks});
  plan.declare({.name = "flag", .base = map.flags.at, .buffers = 2, .sources = ranks, .events = slots});
  plan.declare({.name = "sync_all", .base = map.sync_all.at, .writers = Writers::own_cores, .op = SignalOp::add});
  plan.declare({.name = "abort", .base = map.abort.at, .writers = Writers::any_rank});
  return plan;
}

SlotFamily SlotPlan::declare(SlotFamily family) {
  SHMOE_EXPECTS(family.base.value() % kSlotStride == 0, "slot family {} begins at {:#x}, no multiple of {}",
                family.name, family.base.value(), kSlotStride);
  SHMOE_EXPECTS(family.writers != Writers::source_and_owner || family.op == SignalOp::set,
                "slot family {} of source_and_owner is declared for add; a credit is set", family.name);
  const Bytes bytes{kSlotStride * family.count()};
  for (const SlotFamily& other : families_) {
    const Region mine{family.base, bytes};
    const Region theirs{other.base, Bytes{kSlotStride * other.count()}};
    SHMOE_EXPECTS(!mine.overlaps(theirs), "slot families {} and {} overlap", family.name, other.name);
    SHMOE_EXPECTS(family.name != other.name, "two slot families with the name {}", family.name);
  }
  family.first = size_;
  family.ledger_first = ledger_size_;
  size_ += family.count();
  ledger_size_ += family.writers == Writers::own_cores
                      ? family.count() * static_cast<std::uint32_t>(cores_)
                      : family.buffers * family.events * static_cast<std::uint32_t>(ranks_);
  if (family.writers == Writers::source_and_owner) ledger_size_ += family.count();  // the owner's side
  families_.push_back(family);
  return family;
}

const SlotFamily& SlotPlan::family(std::string_view name) const {
  const auto found = std::find_if(families_.begin(), families_.end(), [&](const auto& f) { return f.name == name; });
  SHMOE_EXPECTS(found != families_.end(), "no slot family has the name {}: declare it in Config::declare_slots", name);
  return *found;
}

std::uint64_t SlotPlan::digest() const {
  std::uint64_t hash = kFnvStart;
  for (const SlotFamily& f : families_) {
    hash = fnv1a(fmt::format("{} {} {} {} {} {} {} {};", f.name, f.base, f.buffers, f.sources, f.events,
                             static_cast<int>(f.writers), static_cast<int>(f.op), f.width),
                 hash);
  }
  return hash;
}

std::string SlotPlan::describe(Slot slot) const {
  const SlotFamily& family = family_of(slot);
  const std::uint32_t index = slot.value() - family.first;
  std::string text = family.name;
  if (family.buffers > 1) text += fmt::format("[{}]", index / family.events / family.sources);
  if (family.has_sources()) text += fmt::format(" from rank {}", index / family.events % family.sources);
  if (family.events > 1) text += fmt::format(" event {}", index % family.events);
  return text;
}

}  // namespace shmoe::shmem
