#include "runtime/prover.hpp"

#include <algorithm>
#include <utility>

#include "runtime/judge.hpp"
#include "runtime/stuck_set.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

using shmem::Life;
using shmem::Match;
using shmem::WaitList;
using shmem::WaitRecord;

/// The last wait of the set began so long ago.
shmem::Time since_last(const Sight& sight, const std::vector<bool>& stuck) {
  shmem::Time last{0};
  for (const CoreSight& core : sight.cores) {
    if (core.wait && stuck[core.rank.index()]) last = std::max(last, core.wait->since);
  }
  return std::chrono::steady_clock::now().time_since_epoch() - last;
}

/// Nobody outside the set matters to the judge but as somebody who goes on.
Sight stuck_part(const Sight& sight, const std::vector<bool>& stuck, const std::vector<bool>& ended) {
  Sight part = sight;
  for (CoreSight& core : part.cores) {
    if (stuck[core.rank.index()]) continue;
    core.busy = !ended[core.rank.index()];
    core.wait.reset();
  }
  return part;
}

}  // namespace

Prover::Prover(const shmem::Peers& peers, std::function<bool(Rank)> gone) : peers_(&peers), gone_(std::move(gone)) {}

WaitRecord& Prover::record(Rank rank, Core core) const {
  return peers_->control_map.record(peers_->controls[rank.index()], core);
}

std::optional<WaitSight> Prover::wait_in(Rank rank, Core core) const {
  const WaitRecord& record = this->record(rank, core);
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
  const WaitList& list = peers_->control_map.list(peers_->controls[rank.index()], core);
  wait.upper = list.upper.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count && count <= WaitList::kLongest; ++i) {
    wait.slots.emplace_back(list.slots[i].load(std::memory_order_relaxed));
  }
  return wait;
}

/// What the record says of a wait counts where its epoch is odd, and the same afterwards.
CoreSight Prover::look_at(Rank rank, Core core, std::uint64_t& epoch) const {
  const WaitRecord& record = this->record(rank, core);
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
                  .site = fmt::format("{}:{}", record.site.text(), record.site.number()),
                  .wait = {}};
  if (epoch % 2 == 0) return sight;
  sight.wait = wait_in(rank, core);
  if (record.epoch.load(std::memory_order_seq_cst) != epoch) sight.wait.reset();
  return sight;
}

LedgerSight Prover::ledger(Rank writer, Rank owner, Slot slot, shmem::Side side) const {
  const std::uint32_t index = peers_->slots->ledger_index(owner, slot, Core{0}, side);
  const shmem::LedgerEntry& entry = peers_->control_map.ledger(peers_->controls[writer.index()], index);
  return {.count = entry.count.load(std::memory_order_relaxed),
          .value = entry.value.load(std::memory_order_relaxed),
          .core = Core{entry.core.load(std::memory_order_relaxed)},
          .place = &entry.site,
          .held = entry.held.load(std::memory_order_relaxed)};
}

std::uint64_t Prover::magic(Rank rank, Core core) const {
  return shmem::load_word(*peers_, rank, peers_->map->magic_of(core));
}

/// An operator is told of twice where it takes a round, and left once.
std::vector<std::string> Prover::operators(Rank rank) const {
  const shmem::EventRing& ring = peers_->control_map.ring(peers_->controls[rank.index()], Core{0});
  std::vector<std::string> names;
  bool inside = false;
  for (const shmem::Event& event : ring.last(shmem::EventRing::kEvents)) {
    if (event.kind == shmem::EventKind::enter && !inside) names.emplace_back(event.text.data());
    if (event.kind == shmem::EventKind::enter) inside = true;
    if (event.kind == shmem::EventKind::leave) inside = false;
  }
  return names;
}

Prover::Look Prover::look() const {
  const std::int32_t ranks = peers_->size();
  Look look{.sight = {.slots = peers_->slots.get(),
                      .ranks = ranks,
                      .cores = {},
                      .word = [this](Rank rank, Slot slot) { return shmem::load_slot(*peers_, rank, slot); },
                      .looked_at = [](Rank, Slot) { return true; },
                      .ledger = [this](Rank writer, Rank owner, Slot slot,
                                       shmem::Side side) { return ledger(writer, owner, slot, side); },
                      .magic = [this](Rank rank, Core core) { return magic(rank, core); },
                      .flag_word = peers_->flag_word,
                      .operators = [this](Rank rank) { return operators(rank); }},
            .epochs = {},
            .ended = std::vector<bool>(static_cast<std::size_t>(ranks)),
            .stuck = {}};
  for (Rank rank{0}; rank.value() < ranks; ++rank) {
    bool waits = false;
    for (Core core{0}; core.value() < peers_->control_map.cores; ++core) {
      look.sight.cores.push_back(look_at(rank, core, look.epochs.emplace_back()));
      waits = waits || look.sight.cores.back().wait;
    }
    // Whoever died in a wait never repeats a number, so only the others are asked after.
    look.ended[rank.index()] = !waits && rank != peers_->rank && gone_(rank);
  }
  for (CoreSight& core : look.sight.cores) core.busy = core.busy && !look.ended[core.rank.index()];
  look.stuck = stuck_set(look.sight, look.ended);
  return look;
}

/// Whoever is lower carries the proof on.
bool Prover::is_lowest(const Look& look, Core core) const {
  const auto first = std::ranges::find(look.stuck, true);
  if (first == look.stuck.end()) return false;
  if (peers_->rank == kOutside) return true;
  if (Rank{first - look.stuck.begin()} != peers_->rank) return false;
  const auto cores = look.sight.of(peers_->rank);
  return std::ranges::find_if(cores, [](const CoreSight& c) { return c.busy && c.wait; })->core == core;
}

bool Prover::stands_as_before(const Look& look) const {
  if (!suspicion_) return false;
  const Look& before = suspicion_->look;
  if (look.stuck != before.stuck || look.ended != before.ended) return false;
  for (std::size_t i = 0; i < look.epochs.size(); ++i) {
    if (look.stuck[look.sight.cores[i].rank.index()] && look.epochs[i] != before.epochs[i]) return false;
  }
  return true;
}

bool Prover::all_repeat(std::uint64_t number, const Look& look) const {
  return std::ranges::all_of(look.sight.cores, [&](const CoreSight& core) {
    if (!look.stuck[core.rank.index()] || !core.busy) return true;
    return record(core.rank, core.core).echo.load(std::memory_order_seq_cst) == number;
  });
}

shmem::Challenge& Prover::challenge_of(Rank rank) const {
  return *reinterpret_cast<shmem::Challenge*>(
      peers_->place(rank, peers_->map->challenge(), Bytes{sizeof(shmem::Challenge)}));
}

void Prover::challenge(Look look) {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  for (Rank rank{0}; rank.value() < look.sight.ranks; ++rank) {
    if (look.stuck[rank.index()]) challenge_of(rank).number.store(now, std::memory_order_seq_cst);
  }
  suspicion_ = Suspicion{.number = now, .look = std::move(look)};
}

bool Prover::is_asked(const Look& look) const {
  for (Rank rank{0}; rank.value() < look.sight.ranks; ++rank) {
    if (look.stuck[rank.index()] && challenge_of(rank).number.load(std::memory_order_seq_cst) != suspicion_->number) {
      return false;
    }
  }
  return true;
}

std::optional<Verdict> Prover::ask(Core core) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;
  // Echoes are read before the second look: an epoch that is still the same then was so when the number was repeated.
  const bool repeated = suspicion_ && all_repeat(suspicion_->number, suspicion_->look);
  Look now = look();
  if (!is_lowest(now, core)) return std::nullopt;  // another core of this rank may be
  if (!stands_as_before(now) || !is_asked(now)) {
    challenge(std::move(now));
    return std::nullopt;
  }
  if (!repeated) return std::nullopt;
  Verdict verdict = judge(stuck_part(now.sight, now.stuck, now.ended));
  verdict.after = since_last(now.sight, now.stuck);
  return verdict;
}

}  // namespace shmoe::runtime
