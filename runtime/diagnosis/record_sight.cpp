#include "runtime/diagnosis/record_sight.hpp"

#include <string>

#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

using shmem::Life;
using shmem::Match;
using shmem::WaitList;
using shmem::WaitRecord;

WaitSight wait_in(const CommunicatorView& view, Rank rank, Core core) {
  const WaitRecord& record = view.record(rank, core);
  const std::uint32_t count = record.count.load(std::memory_order_relaxed);
  WaitSight wait{.where = Rank{record.where.load(std::memory_order_relaxed)},
                 .slots = {Slot{record.slot.load(std::memory_order_relaxed)}},
                 .match = static_cast<Match>(record.match.load(std::memory_order_relaxed)),
                 .compare = static_cast<Compare>(record.compare.load(std::memory_order_relaxed)),
                 .value = record.value.load(std::memory_order_relaxed),
                 .may_give_up = record.may_give_up.load(std::memory_order_relaxed) != 0,
                 .since = shmem::Time{record.since_ns.load(std::memory_order_relaxed)}};
  if (wait.match == Match::all) return wait;
  wait.slots.clear();  // and stays empty where not all are known
  const WaitList& list = view.peers.control_map.list(view.peers.controls[rank.index()], core);
  wait.upper = list.upper.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count && count <= WaitList::kLongest; ++i) {
    wait.slots.emplace_back(list.slots[i].load(std::memory_order_relaxed));
  }
  return wait;
}

/// What the record says of a wait counts where its epoch is odd, and the same afterwards.
CoreSight look_at(const CommunicatorView& view, Rank rank, Core core, std::uint64_t& epoch) {
  const WaitRecord& record = view.record(rank, core);
  const auto life = static_cast<Life>(record.life.load(std::memory_order_seq_cst));
  epoch = record.epoch.load(std::memory_order_seq_cst);
  CoreSight sight{.rank = rank,
                  .core = core,
                  .busy = life == Life::running,
                  .op = record.op.text(),
                  .round = Round{record.round.load(std::memory_order_relaxed)},
                  .launch = record.launches.load(std::memory_order_relaxed),
                  .block = record.block.load(std::memory_order_relaxed),
                  .blocks = record.blocks.load(std::memory_order_relaxed),
                  .site = {},
                  .wait = {}};
  if (epoch % 2 == 0) return sight;
  sight.site = fmt::format("{}:{}", record.site.text(), record.site.number());
  sight.wait = wait_in(view, rank, core);
  if (record.epoch.load(std::memory_order_seq_cst) != epoch) sight.wait.reset();
  return sight;
}

LedgerSight ledger_of(const shmem::Peers& peers, Rank writer, Rank owner, Slot slot, shmem::Side side) {
  const std::uint32_t index = peers.slots->ledger_index(owner, slot, Core{0}, side);
  const shmem::LedgerEntry& entry = peers.control_map.ledger(peers.controls[writer.index()], index);
  return {.count = entry.count.load(std::memory_order_relaxed),
          .value = entry.value.load(std::memory_order_relaxed),
          .core = Core{entry.core.load(std::memory_order_relaxed)},
          .place = &entry.site,
          .held = entry.held.load(std::memory_order_relaxed)};
}

}  // namespace

Sight sight_of(const CommunicatorView& view, std::vector<std::uint64_t>& epochs) {
  const shmem::Peers* peers = &view.peers;
  Sight sight{
      .slots = peers->slots.get(),
      .ranks = peers->size(),
      .cores = {},
      .word = [peers](Rank rank, Slot slot) { return shmem::load_slot(*peers, rank, slot); },
      .looked_at = [](Rank, Slot) { return true; },
      .ledger = [peers](Rank writer, Rank owner, Slot slot,
                        shmem::Side side) { return ledger_of(*peers, writer, owner, slot, side); },
      .magic = [peers](Rank rank, Core core) { return shmem::load_word(*peers, rank, peers->map->magic_of(core)); },
      .flag_word = peers->flag_word,
      .events = [view = &view](Rank rank, Core core) { return view->ring(rank, core).last(shmem::EventRing::kEvents); },
      .members = view.members(),
      .scope = view.group.scope(),
      .open_ended = [view = &view](Rank rank) { return !view->group.agreed || view->is_aborted(rank); }};
  epochs.clear();
  for (Rank rank{0}; rank.value() < peers->size(); ++rank) {
    for (Core core{0}; core.value() < peers->control_map.cores; ++core)
      sight.cores.push_back(look_at(view, rank, core, epochs.emplace_back()));
  }
  return sight;
}

}  // namespace shmoe::runtime
