#include "shmem/signal.hpp"

namespace shmoe::shmem {

SlotPlan SlotPlan::of_block(const BlockMap& map) {
  const auto ranks = static_cast<std::uint32_t>(map.shape.ranks);
  const auto slots = static_cast<std::uint32_t>(map.shape.slots);
  SlotPlan plan(map.shape.ranks);
  plan.declare({.name = "barrier", .base = map.barrier.at, .buffers = 2, .sources = ranks});
  plan.declare({.name = "flag", .base = map.flags.at, .buffers = 2, .sources = ranks, .events = slots});
  plan.declare({.name = "sync_all", .base = map.sync_all.at, .writers = Writers::own_cores, .op = SignalOp::add});
  plan.declare({.name = "abort", .base = map.abort.at, .writers = Writers::any_rank});
  return plan;
}

SlotFamily SlotPlan::declare(SlotFamily family) {
  const Bytes bytes{kSlotStride * family.count()};
  for (const SlotFamily& other : families_) {
    const Region mine{family.base, bytes};
    const Region theirs{other.base, Bytes{kSlotStride * other.count()}};
    SHMOE_EXPECTS(!mine.overlaps(theirs), "slot families {} and {} overlap", family.name, other.name);
  }
  family.first = size_;
  family.ledger_first = ledger_size_;
  size_ += family.count();
  const std::uint32_t per_destination = family.buffers * family.events;
  ledger_size_ +=
      family.writers == Writers::own_cores ? family.count() : per_destination * static_cast<std::uint32_t>(ranks_);
  families_.push_back(family);
  return family;
}

const SlotFamily& SlotPlan::family_of(Slot slot) const {
  for (const SlotFamily& family : families_) {
    if (slot.value() - family.first < family.count()) return family;
  }
  contract_violated("slot is declared", SourceSite::here(), fmt::format("slot {} of {}", slot, size_));
}

Offset SlotPlan::offset_of(Slot slot) const {
  const SlotFamily& family = family_of(slot);
  return family.base + Bytes{kSlotStride * (slot.value() - family.first)};
}

std::optional<Rank> SlotPlan::writer_of(Slot slot, Rank owner) const {
  const SlotFamily& family = family_of(slot);
  if (family.writers == Writers::own_cores) return owner;
  if (family.writers == Writers::any_rank) return std::nullopt;
  return Rank{(slot.value() - family.first) / family.events % family.sources};
}

bool SlotPlan::may_write(Slot slot, Rank owner, Rank writer) const {
  return writer_of(slot, owner).value_or(writer) == writer;
}

std::string SlotPlan::describe(Slot slot) const {
  const SlotFamily& family = family_of(slot);
  const std::uint32_t index = slot.value() - family.first;
  std::string text = family.name;
  if (family.buffers > 1) text += fmt::format("[{}]", index / family.events / family.sources);
  if (family.writers == Writers::source_rank)
    text += fmt::format(" from rank {}", index / family.events % family.sources);
  if (family.events > 1) text += fmt::format(" event {}", index % family.events);
  return text;
}

std::uint32_t SlotPlan::ledger_index(Rank destination, Slot slot) const {
  const SlotFamily& family = family_of(slot);
  const std::uint32_t index = slot.value() - family.first;
  if (family.writers == Writers::own_cores) return family.ledger_first + index;
  const std::uint32_t buffer = index / family.events / family.sources;
  const auto dst = static_cast<std::uint32_t>(destination.value());
  return family.ledger_first + (dst * family.buffers + buffer) * family.events + index % family.events;
}

}  // namespace shmoe::shmem
