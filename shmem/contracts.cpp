#include "shmem/contracts.hpp"

#include "shmem/wait.hpp"

namespace shmoe::shmem {
namespace {

/// Words that their slots cannot hold, and slots that were declared for more ranks than this communicator has.
void expect_declared(const Peers& peers, const WaitSpec& spec, SourceSite site) {
  const SlotPlan& plan = *peers.slots;
  for (const Slot slot : spec.slots) {
    const SlotFamily& family = plan.family_of(slot);
    SHMOE_EXPECTS(family.width == 8 || spec.value >> 32 == 0,
                  "a wait at {}:{} for {} of rank {} compares with {:#x}: its words are 4 bytes wide", site.file,
                  site.line, plan.describe(slot), spec.where, spec.value);
    if (family.sources <= static_cast<std::uint32_t>(peers.size())) continue;
    const std::optional<Rank> writer = awaited_writer(plan, slot, spec.where, spec.compare, spec.value);
    SHMOE_EXPECTS(!writer || writer->value() < peers.size(),
                  "a wait at {}:{} for {} of rank {}, which nobody may write: there are {} ranks", site.file, site.line,
                  plan.describe(slot), spec.where, peers.size());
  }
}

}  // namespace

void expect_rank(const Peers& peers, Rank rank, SourceSite site) {
  SHMOE_EXPECTS(rank.value() >= 0 && rank.value() < peers.size(),
                "rank {} of {}, used at {}:{}: ranks go from 0 to size - 1", rank, peers.size(), site.file, site.line);
}

void expect_place(const Peers& peers, Rank rank, Offset at, Bytes size, SourceSite site) {
  expect_rank(peers, rank, site);
  const std::uint64_t block = peers.map->size.value();
  SHMOE_EXPECTS(
      size.value() <= block && at.value() <= block - size.value(),
      "bytes [{:#x}, +{}) of rank {} at {}:{} lie outside its block of {} bytes: see the offset and the length",
      at.value(), size, rank, site.file, site.line, block);
}

void expect_signal(const Peers& peers, Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) {
  const SlotPlan& plan = *peers.slots;
  expect_place(peers, dst, plan.offset_of(slot), Bytes{kSlotStride}, site);
  if (!peers.strict) return;
  SHMOE_EXPECTS(
      plan.may_write(slot, dst, peers.rank),
      "rank {} signals {} of rank {} at {}:{} and is no declared writer of it: take a slot of its own, or declare it",
      peers.rank, plan.describe(slot), dst, site.file, site.line);
  SHMOE_EXPECTS(plan.writer_of(slot, dst, side_of(value)).value_or(peers.rank) == peers.rank,
                "rank {} sets {} of rank {} to {:#x} at {}:{}: only its source may set it, only its owner back to 0",
                peers.rank, plan.describe(slot), dst, value, site.file, site.line);
  SHMOE_EXPECTS(plan.family_of(slot).width == 8 || value >> 32 == 0,
                "rank {} signals {} of rank {} at {}:{} with {:#x}: its words are 4 bytes wide", peers.rank,
                plan.describe(slot), dst, site.file, site.line, value);
  SHMOE_EXPECTS(plan.family_of(slot).op == op, "{} of rank {} is declared for {} and is signalled with {} at {}:{}",
                plan.describe(slot), dst, op == SignalOp::set ? "add" : "set", op == SignalOp::set ? "set" : "add",
                site.file, site.line);
}

void expect_wait(const Peers& peers, const WaitSpec& spec, SourceSite site) {
  SHMOE_EXPECTS(!spec.slots.empty(), "a wait at {}:{} names no slot", site.file, site.line);
  expect_rank(peers, spec.where, site);
  for (const Slot slot : spec.slots) {
    SHMOE_EXPECTS(slot.value() < peers.slots->size(), "a wait at {}:{} names slot {} of {}", site.file, site.line, slot,
                  peers.slots->size());
  }
  SHMOE_EXPECTS(spec.observed.empty() || spec.observed.size() == spec.slots.size(),
                "a wait at {}:{} on {} slots has room for {} words", site.file, site.line, spec.slots.size(),
                spec.observed.size());
  if (peers.strict && spec.match != Match::sum) expect_declared(peers, spec, site);
}

}  // namespace shmoe::shmem
