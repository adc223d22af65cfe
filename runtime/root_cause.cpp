#include "runtime/root_cause.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/ranges.h>

#include "runtime/evidence.hpp"

namespace shmoe::runtime {
namespace {

using Because = std::optional<std::string>;

std::string times(std::uint64_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

/// The word of a kernel and of a barrier or phase in it, as published.
bool has_magic(const Evidence& known, const Edge& edge) {
  return known.has_rounds(edge) && known.sight().flag_word == FlagWord::magic32_value32;
}

/// "0x100000002 (magic 1, barrier 2)", as the profile packs it.
std::string word_text(const Evidence& known, const Edge& edge, std::uint64_t word) {
  if (has_magic(known, edge)) {
    return fmt::format("{:#x} (magic {}, value {})", word, word >> 32, word & 0xFFFF'FFFFU);
  }
  return known.is_barrier(edge) ? fmt::format("{:#x} (barrier {})", word, word >> 8) : fmt::format("{:#x}", word);
}

std::string slot_text(const Evidence& known, const Edge& edge) {
  return fmt::format("{} of rank {}", known.sight().slots->describe(edge.slot), edge.where);
}

// Rules on words that went past the wait.

bool is_past(const Edge& edge) { return edge.compare == Compare::equal && edge.seen > edge.wanted; }

/// The writer has gone on and written its next word over the awaited one. Where both sides signal in turn, its ledger is
/// ahead of the other's.
bool overtaken(const Evidence& known, const Edge& edge) {
  if (!is_past(edge) || !edge.family->has_sources() || edge.family->op != shmem::SignalOp::set) return false;
  return known.has_rounds(edge) ? known.sent(edge).count > known.sent_back(edge) : known.sent(edge).count > 1;
}

std::string overtaken_text(const Evidence& known, const Edge& edge) {
  return fmt::format(
      "rank {} wrote {} over {} in {} before rank {} core {} had seen it: it signalled this slot {}, and was signalled "
      "back {}",
      edge.writer, word_text(known, edge, edge.seen), word_text(known, edge, edge.wanted), slot_text(known, edge),
      edge.core->rank, edge.core->core, times(known.sent(edge).count), times(known.sent_back(edge)));
}

Because two_barriers(const Evidence& known, const Edge& edge) {
  if (!overtaken(known, edge) || !has_magic(known, edge) || edge.seen >> 32 != edge.wanted >> 32) return std::nullopt;
  return overtaken_text(known, edge);
}

Because buffer_reused(const Evidence& known, const Edge& edge) {
  if (!overtaken(known, edge) || two_barriers(known, edge)) return std::nullopt;
  return overtaken_text(known, edge);
}

Because doubled(const Evidence& known, const Edge& edge) {
  if (!is_past(edge) || edge.family->op != shmem::SignalOp::add) return std::nullopt;
  return fmt::format("{} has counted to {} and the wait looks for {}", slot_text(known, edge), edge.seen, edge.wanted);
}

// Rules on how ranks and cores count.

Because core_counts(const Evidence& known, const Edge& edge) {
  if (!known.has_rounds(edge) || !known.counts_rounds(*edge.core)) return std::nullopt;
  for (const CoreSight& other : known.sight().of(edge.core->rank)) {
    if (!known.counts_rounds(other) || known.magic(other) == known.magic(*edge.core)) continue;
    return fmt::format("on rank {} core {} is in round {} and core {} in round {} of the same launch", edge.core->rank,
                       edge.core->core, edge.core->round, other.core, other.round);
  }
  return std::nullopt;
}

Because magics(const Evidence& known, const Edge& edge) {
  const CoreSight* other = known.beside(edge);
  if (!known.has_rounds(edge) || other == nullptr) return std::nullopt;
  if (known.counts_rounds(*edge.core) && known.counts_rounds(*other) &&
      known.magic(*other) != known.magic(*edge.core)) {
    return fmt::format("{} is round {} on rank {} and round {} on rank {}", edge.core->op, edge.core->round,
                       edge.core->rank, other->round, other->rank);
  }
  if (!is_past(edge) || known.sent(edge).count != known.sent_back(edge)) return std::nullopt;
  return fmt::format("ranks {} and {} have signalled each other {}, yet one is at {} and the other at {}", edge.writer,
                     edge.where, times(known.sent(edge).count), word_text(known, edge, edge.seen),
                     word_text(known, edge, edge.wanted));
}

/// Core 0 stands for its rank.
const CoreSight& first_core(const Evidence& known, Rank rank) { return known.sight().of(rank).front(); }

/// Of the launches that two ranks remember, the first that is not of the same operator on both.
Because order(const Evidence& known, const Edge& edge) {
  if (!known.sight().operators || edge.writer == edge.core->rank) return std::nullopt;
  const std::vector<std::string> here = known.sight().operators(edge.core->rank);
  const std::vector<std::string> there = known.sight().operators(edge.writer);
  // The newest of each is its launch of this number.
  const std::uint64_t here_last = first_core(known, edge.core->rank).launch;
  const std::uint64_t there_last = first_core(known, edge.writer).launch;
  const std::uint64_t first = std::max(here_last - std::min<std::uint64_t>(here_last, here.size()),
                                       there_last - std::min<std::uint64_t>(there_last, there.size())) +
                              1;
  for (std::uint64_t launch = first; launch <= std::min(here_last, there_last); ++launch) {
    const std::string& mine = here[here.size() - 1 - (here_last - launch)];
    const std::string& theirs = there[there.size() - 1 - (there_last - launch)];
    if (mine == theirs) continue;
    return fmt::format("operator {} of the communicator is {} on rank {} and {} on rank {}", launch, mine,
                       edge.core->rank, theirs, edge.writer);
  }
  return std::nullopt;
}

Because left_out(const Evidence& known, const Edge& edge) {
  const std::uint64_t launches = first_core(known, edge.writer).launch;
  if (!known.sight().ended(edge.writer) || launches >= edge.core->launch) return std::nullopt;
  return fmt::format("rank {} ended after {} operators, and rank {} waits for it in {}, its operator {}", edge.writer,
                     launches, edge.core->rank, edge.core->op, edge.core->launch);
}

// Rules on where signals went.

/// A signal from another rank is what is waited for.
bool by_source(const Edge& edge) { return edge.family->has_sources() && edge.side == shmem::Side::source; }

Because erased(const Evidence& known, const Edge& edge) {
  const bool once = by_source(edge) && !edge.family->goes_back() && edge.family->op == shmem::SignalOp::set;
  if (!once) return std::nullopt;
  const LedgerSight sent = known.sent(edge);
  if (sent.count == 0 || !edge.ends_with(sent.value)) return std::nullopt;
  return fmt::format("rank {} core {} wrote {} to {} at {}, and {} lies there", edge.writer, sent.core,
                     word_text(known, edge, sent.value), slot_text(known, edge), sent.site(),
                     word_text(known, edge, edge.seen));
}

Because wrong_rank(const Evidence& known, const Edge& edge) {
  if (!by_source(edge)) return std::nullopt;
  const std::uint64_t here = known.sent(edge).count;
  const auto one_to_one = [&] {
    return !known.is_barrier(edge) && known.sight().ranks > 2 && known.fan_out(edge) == 1;
  };
  for (Rank owner{0}; owner.value() < known.sight().ranks; ++owner) {
    if (owner == edge.where) continue;
    const LedgerSight there = known.sent(edge.writer, owner, edge.slot);
    const bool to_itself = owner == edge.writer && !edge.family->goes_back();
    const bool odd = to_itself || there.count >= here + 2 || (there.count > here && one_to_one());
    if (there.count == 0 || there.value != edge.wanted || !odd) continue;
    return fmt::format(
        "rank {} sent {} to rank {}, at {}, and rank {} waits for it: the slot was signalled {} there and "
        "{} here",
        edge.writer, word_text(known, edge, edge.wanted), owner, there.site(), edge.where, times(there.count),
        times(here));
  }
  return std::nullopt;
}

/// How often the writer has signalled the slot on any other rank, at most; nothing where there is no other.
std::optional<std::uint64_t> usual(const Evidence& known, const Edge& edge, Slot slot) {
  std::optional<std::uint64_t> most;
  for (Rank owner{0}; owner.value() < known.sight().ranks; ++owner) {
    if (owner == edge.where || (owner == edge.writer && !edge.family->goes_back())) continue;
    most = std::max(most.value_or(0), known.sent(edge.writer, owner, slot).count);
  }
  return most;
}

/// The writer waits until it can fill the slot once more.
bool refills(const Evidence& known, const Edge& edge, Slot slot) {
  return std::ranges::any_of(known.edges(), [&](const Edge& other) {
    return other.side == shmem::Side::owner && other.core->rank == edge.writer && other.where == edge.where &&
           other.slot == slot;
  });
}

/// Signals of the awaited slot have gone to this one.
bool takes_over(const Evidence& known, const Edge& edge, Slot slot) {
  const std::uint64_t here = known.sent(edge).count;
  const std::uint64_t there = known.sent(edge.writer, edge.where, slot).count + (refills(known, edge, slot) ? 1 : 0);
  const auto usual_there = usual(known, edge, slot);
  if (!usual_there) return there >= here + 2;
  return there > *usual_there && here < *usual(known, edge, edge.slot);
}

Because drifted(const Evidence& known, const Edge& edge) {
  if (!by_source(edge)) return std::nullopt;
  const SlotPlace place = known.place_of(edge);
  for (std::uint32_t buffer = 0; buffer < edge.family->buffers; ++buffer) {
    for (std::uint32_t event = 0; event < edge.family->events; ++event) {
      const Slot slot = edge.family->at(buffer, edge.writer, event);
      const LedgerSight there = known.sent(edge.writer, edge.where, slot);
      if (slot == edge.slot || there.count == 0 || there.value != edge.wanted) continue;
      const bool other_buffer = buffer != place.buffer && !edge.family->goes_back();
      if (!other_buffer && !takes_over(known, edge, slot)) continue;
      return fmt::format("rank {} sent {} to {} of rank {}, at {}; rank {} waits for it at {}", edge.writer,
                         word_text(known, edge, edge.wanted), known.sight().slots->describe(slot), edge.where,
                         there.site(), edge.core->rank, known.sight().slots->describe(edge.slot));
    }
  }
  return std::nullopt;
}

/// Of the events that the writer signals on this rank in this round, this one is missing.
Because range(const Evidence& known, const Edge& edge) {
  if (!by_source(edge) || edge.family->events == 1) return std::nullopt;
  const SlotPlace place = known.place_of(edge);
  const std::uint64_t here = known.sent(edge).count;
  std::vector<std::uint32_t> signalled;
  for (std::uint32_t event = 0; event < edge.family->events; ++event) {
    const LedgerSight there = known.sent(edge.writer, edge.where, edge.family->at(place.buffer, edge.writer, event));
    if (there.count > here && edge.ends_with(there.value)) signalled.push_back(event);
  }
  if (signalled.empty()) return std::nullopt;
  return fmt::format("rank {} has signalled events {} to rank {} and never event {}, which rank {} core {} waits for",
                     edge.writer, fmt::join(signalled, " "), edge.where, place.event, edge.core->rank, edge.core->core);
}

Because wrong_word(const Evidence& known, const Edge& edge) {
  const LedgerSight sent = known.sent(edge);
  if (!by_source(edge) || sent.count == 0 || sent.value != edge.seen) return std::nullopt;
  const auto siblings = known.siblings(edge);
  const bool others_right = std::ranges::any_of(siblings, [&](const Evidence::Sibling& sibling) {
    return sibling.sent.count == sent.count && edge.ends_with(sibling.sent.value);
  });
  const bool even = siblings.empty() && known.has_passed(edge) && sent.count == known.sent_back(edge);
  if (!others_right && !even) return std::nullopt;
  return fmt::format("rank {} core {} wrote {} to {} at {} where {} was due", edge.writer, sent.core,
                     word_text(known, edge, sent.value), slot_text(known, edge), sent.site(),
                     word_text(known, edge, edge.wanted));
}

/// Other ranks have it.
Because missing_here(const Evidence& known, const Edge& edge) {
  if (!by_source(edge) || is_past(edge)) return std::nullopt;
  const std::uint64_t here = known.sent(edge).count;
  std::vector<Rank> others;
  for (const Evidence::Sibling& sibling : known.siblings(edge)) {
    if (sibling.sent.count > here && edge.ends_with(sibling.sent.value)) others.push_back(sibling.owner);
  }
  if (others.empty()) return std::nullopt;
  return fmt::format("rank {} sent {} to rank {} and not to rank {}", edge.writer, word_text(known, edge, edge.wanted),
                     fmt::join(others, ", "), edge.where);
}

/// The writer is past the place where it signals.
Because missing(const Evidence& known, const Edge& edge) {
  if (!by_source(edge) || is_past(edge)) return std::nullopt;
  if (known.has_passed(edge)) {
    return fmt::format("rank {} waits in this barrier or a later one itself, and has signalled {} {}", edge.writer,
                       slot_text(known, edge), times(known.sent(edge).count));
  }
  const CoreSight& writer = first_core(known, edge.writer);
  if (known.sight().ended(edge.writer) || writer.launch > edge.core->launch) {
    return fmt::format("rank {} has left {} without signalling {}", edge.writer, edge.core->op, slot_text(known, edge));
  }
  return std::nullopt;
}

// Rules on slots that are filled and given back.

Because no_credit(const Evidence& known, const Edge& edge) {
  if (!edge.family->goes_back() || edge.side != shmem::Side::owner) return std::nullopt;
  const auto [filled, reset] = known.turns(edge);
  if (filled <= reset) return std::nullopt;
  return fmt::format("{} was filled {} and given back {}: rank {} core {} waits to fill it again",
                     slot_text(known, edge), times(filled), times(reset), edge.core->rank, edge.core->core);
}

Because reset_twice(const Evidence& known, const Edge& edge) {
  if (!edge.family->goes_back() || edge.side != shmem::Side::source) return std::nullopt;
  const auto [filled, reset] = known.turns(edge);
  if (reset <= filled) return std::nullopt;
  return fmt::format("{} was filled {} and given back {}: a signal was erased before rank {} core {} saw it",
                     slot_text(known, edge), times(filled), times(reset), edge.core->rank, edge.core->core);
}

Because merged(const Evidence& known, const Edge& edge) {
  if (!edge.family->goes_back() || edge.side != shmem::Side::source || edge.seen != 0) return std::nullopt;
  const auto [filled, reset] = known.turns(edge);
  if (filled <= reset) return std::nullopt;
  return fmt::format("{} was filled {} and given back {}, and is empty: rank {} filled it while it was full",
                     slot_text(known, edge), times(filled), times(reset), edge.writer);
}

// Rules on signals that have not left.

/// One of those that lie with the sender may be an older one than the last.
Because not_quiet(const Evidence& known, const Edge& edge) {
  const LedgerSight sent = known.sent(edge);
  const bool awaited = edge.family->op == shmem::SignalOp::add || sent.held > 1 || edge.ends_with(sent.value);
  if (sent.held == 0 || !awaited) return std::nullopt;
  const CoreSight& core = known.sight().of(edge.writer)[sent.core.index()];
  return fmt::format(
      "rank {} core {} sent {} to {} at {}, and it lies there still: {} without a quiet", edge.writer, sent.core,
      word_text(known, edge, sent.value), slot_text(known, edge), sent.site(),
      core.busy && core.wait ? fmt::format("the core waits at {}", core.site) : std::string("the core has left"));
}

// Rules on cores that wait for each other.

Because queued(const Evidence& known, const Edge& edge) {
  const auto physical = static_cast<std::uint32_t>(known.sight().cores_a_rank());
  for (const CoreSight& core : known.sight().of(edge.writer)) {
    if (!core.busy || core.blocks <= physical || core.block + physical >= core.blocks) continue;
    return fmt::format("rank {} runs {} blocks of {} on {} cores; block {} cannot begin before block {}, which waits",
                       edge.writer, core.blocks, core.op, physical, core.block + physical, core.block);
  }
  return std::nullopt;
}

Because sync_all_left(const Evidence& known, const Edge& edge) {
  if (edge.family != &known.sight().slots->sync_all()) return std::nullopt;
  std::vector<std::string> elsewhere;
  for (const CoreSight& core : known.sight().of(edge.core->rank)) {
    const bool waits = core.busy && core.wait;
    if (waits && core.wait->slot() == edge.slot && core.wait->value == edge.wanted) continue;
    const bool for_others = waits && &known.sight().slots->family_of(core.wait->slot()) != edge.family;
    if (for_others) return std::nullopt;  // it will come, once they have signalled
    elsewhere.push_back(waits ? fmt::format("core {} waits at {}", core.core, core.site)
                              : fmt::format("core {} has left", core.core));
  }
  if (elsewhere.empty()) return std::nullopt;
  return fmt::format("rank {} core {} waits in the SyncAll at {}; {}", edge.core->rank, edge.core->core,
                     edge.core->site, fmt::join(elsewhere, ", "));
}

/// Every core is there, and the slot has counted fewer.
Because arrival_lost(const Evidence& known, const Edge& edge) {
  if (edge.family != &known.sight().slots->sync_all()) return std::nullopt;
  const auto is_there = [&](const CoreSight& core) {
    return core.busy && core.wait && core.wait->slot() == edge.slot && core.wait->value == edge.wanted;
  };
  if (!std::ranges::all_of(known.sight().of(edge.core->rank), is_there)) return std::nullopt;
  return fmt::format("all cores of rank {} wait in the SyncAll at {}, and {} of {} have been counted", edge.core->rank,
                     edge.core->site, edge.seen, edge.wanted);
}

Because wait_first(const Evidence& known, const Edge& edge) {
  if (!by_source(edge) || known.beside(edge) == nullptr) return std::nullopt;
  return fmt::format("rank {} core {} waits for rank {} in {}, and rank {} waits there too before it signals",
                     edge.core->rank, edge.core->core, edge.writer, edge.core->op, edge.writer);
}

/// Whoever waits may have left out, before, what it is waited for.
Because left_out_before(const Evidence& known, const Edge& edge) {
  if (!wait_first(known, edge)) return std::nullopt;
  return fmt::format("rank {} has signalled {} {}, and may have left out the next before it came to its own wait",
                     edge.writer, slot_text(known, edge), times(known.sent(edge).count));
}

struct Rule {
  CauseKind kind;
  Because (*fits)(const Evidence&, const Edge&);
};

/// Seen, and not inferred: it comes before all others.
constexpr Rule kChannels[] = {{CauseKind::missing_quiet, not_quiet}};

/// How the job is put together. Where one of these fits, the signals merely follow.
constexpr Rule kStructure[] = {
    {CauseKind::oversized_grid, queued},      {CauseKind::operator_order, order},
    {CauseKind::operator_left_out, left_out}, {CauseKind::core_count_drift, core_counts},
    {CauseKind::magic_drift, magics},
};

/// The more a rule asks for, the earlier it stands.
constexpr Rule kSignals[] = {
    {CauseKind::two_barriers_in_one_epoch, two_barriers},
    {CauseKind::buffer_reused_early, buffer_reused},
    {CauseKind::doubled_notify, doubled},
    {CauseKind::slot_erased, erased},
    {CauseKind::slot_drift, drifted},
    {CauseKind::wrong_rank, wrong_rank},
    {CauseKind::wrong_word, wrong_word},
    {CauseKind::double_reset, reset_twice},
    {CauseKind::merged_notify, merged},
    {CauseKind::missing_notify, missing_here},
    {CauseKind::notify_range, range},
    {CauseKind::missing_notify, missing},
    {CauseKind::credit_missing, no_credit},
};

/// Only where nothing else fits: they are true of many waits that merely follow.
constexpr Rule kLast[] = {{CauseKind::wait_first, wait_first}, {CauseKind::missing_notify, left_out_before}};

void apply(const Evidence& known, std::span<const Rule> rules, std::vector<Cause>& causes) {
  for (const Rule& rule : rules) {
    const bool named = std::ranges::any_of(causes, [&](const Cause& cause) { return cause.kind == rule.kind; });
    if (named) continue;
    for (const Edge& edge : known.edges()) {
      Because because = rule.fits(known, edge);
      if (!because) continue;
      causes.push_back({rule.kind, *std::move(because), edge.core->rank, edge.core->core});
      break;
    }
  }
}

}  // namespace

std::vector<Cause> causes_of(const Sight& sight, VerdictKind kind) {
  const Evidence known(sight);
  std::vector<Cause> causes;
  constexpr Rule kSyncAll[] = {{CauseKind::sync_all_left, sync_all_left}, {CauseKind::missing_notify, arrival_lost}};
  apply(known, kChannels, causes);
  if (causes.empty() && kind == VerdictKind::sync_mismatch) apply(known, kSyncAll, causes);
  if (causes.empty()) apply(known, kStructure, causes);
  if (causes.empty()) apply(known, kSignals, causes);
  if (causes.empty()) apply(known, kLast, causes);
  return causes;
}

}  // namespace shmoe::runtime
