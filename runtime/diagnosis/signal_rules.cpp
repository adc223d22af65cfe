#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "runtime/diagnosis/cause_rules.hpp"

namespace shmoe::runtime::rules {
namespace {

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

/// What was due lies in a slot of this rank that another rank signals. Only the events tell: the ledger has no entry for it.
Because drifted_to_another_source(const Evidence& known, const Edge& edge) {
  const shmem::SlotPlan& slots = *known.sight().slots;
  for (const SentSignal& signal : known.history(edge.writer).signals) {
    const bool due = signal.value == edge.wanted && signal.launch == edge.core->launch;
    if (!due || !signal.reaches(edge.where)) continue;
    if (slots.may_write(signal.slot, edge.where, edge.writer)) continue;
    return fmt::format("rank {} core {} sent {} to {} of rank {}, at {}; rank {} waits for it at {}", edge.writer,
                       signal.core, word_text(known, edge, edge.wanted), slots.describe(signal.slot), edge.where,
                       signal.site, edge.core->rank, slots.describe(edge.slot));
  }
  return std::nullopt;
}

}  // namespace

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

Because drifted(const Evidence& known, const Edge& edge) {
  if (!by_word(edge)) return std::nullopt;
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
  return drifted_to_another_source(known, edge);
}

Because wrong_rank(const Evidence& known, const Edge& edge) {
  if (!by_word(edge)) return std::nullopt;
  const std::uint64_t here = known.sent(edge).count;
  // Whoever waits in the memory of others may be signalled in several.
  const auto one_to_one = [&] {
    const bool at_home = edge.where == edge.core->rank && !known.is_barrier(edge);
    return at_home && known.sight().ranks > 2 && known.fan_out(edge) == 1;
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

/// Of the events that the writer signals on this rank in this round, this one is missing.
Because range(const Evidence& known, const Edge& edge) {
  if (!by_word(edge) || edge.family->events == 1) return std::nullopt;
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

/// Other ranks have it.
Because missing_here(const Evidence& known, const Edge& edge) {
  if (!by_word(edge) || known.is_past(edge)) return std::nullopt;
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
  if (!by_source(edge) || known.is_past(edge)) return std::nullopt;
  if (known.has_passed(edge)) {
    return fmt::format("rank {} waits in this barrier or a later one itself, and has signalled {} {}", edge.writer,
                       slot_text(known, edge), times(known.sent(edge).count));
  }
  const CoreSight& writer = known.sight().of(edge.writer).front();
  if (known.sight().ended(edge.writer) || writer.launch > edge.core->launch) {
    if (!by_word(edge)) {
      return fmt::format(
          "rank {} has left {}, and {} is no more than {}: the sum that rank {} core {} waits for lacks the "
          "rest",
          edge.writer, edge.core->op, slot_text(known, edge), word_text(known, edge, edge.seen), edge.core->rank,
          edge.core->core);
    }
    return fmt::format("rank {} has left {} without signalling {}", edge.writer, edge.core->op, slot_text(known, edge));
  }
  return std::nullopt;
}

/// Of a slot that any core of a rank sets.
Because missing_of_cores(const Evidence& known, const Edge& edge) {
  const bool of_cores = edge.family->writers == shmem::Writers::own_cores;
  if (!of_cores || edge.family == &known.sight().slots->sync_all() || known.is_past(edge)) return std::nullopt;
  const auto still_signals = [&](const CoreSight& core) {
    const bool waits = core.wait && core.wait->where == edge.where && core.wait->slot() == edge.slot;
    return core.busy && core.launch <= edge.core->launch && !waits;
  };
  if (std::ranges::any_of(known.sight().of(edge.writer), still_signals)) return std::nullopt;
  return fmt::format(
      "only cores of rank {} signal {}, each of them waits for it or has left {}, and it was signalled {}", edge.writer,
      slot_text(known, edge), edge.core->op, times(known.sent(edge).count));
}

Because everybody_waits(const Evidence& known, const Edge& edge) {
  if (!by_source(edge) || known.beside(edge) == nullptr) return std::nullopt;
  if (edge.writer == edge.core->rank) {
    return fmt::format("rank {} core {} waits in {} for a signal of its own rank, before that rank sends it",
                       edge.core->rank, edge.core->core, edge.core->op);
  }
  return fmt::format("rank {} core {} waits for rank {} in {}, and rank {} waits there too before it signals",
                     edge.core->rank, edge.core->core, edge.writer, edge.core->op, edge.writer);
}

/// They have signalled each other in this launch, so the order of their calls is right.
Because left_out_midway(const Evidence& known, const Edge& edge) {
  if (!everybody_waits(known, edge)) return std::nullopt;
  bool begun = false;
  std::set<Rank> writers;
  for (const Edge& other : known.edges()) {
    if (!everybody_waits(known, other)) continue;
    writers.insert(other.writer);
    begun = begun || std::ranges::any_of(known.signals_to(other), [&](const SentSignal& signal) {
              return signal.writer == other.writer && signal.launch == other.core->launch;
            });
  }
  if (!begun) return std::nullopt;
  return fmt::format(
      "the ranks of the cycle have signalled each other in {} before; rank {} has left out its next signal",
      edge.core->op, fmt::join(writers, " or "));
}

/// Whoever waits may have left out, before, what it is waited for.
Because left_out_before(const Evidence& known, const Edge& edge) {
  if (!everybody_waits(known, edge)) return std::nullopt;
  return fmt::format("rank {} has signalled {} {}, and may have left out the next before it came to its own wait",
                     edge.writer, slot_text(known, edge), times(known.sent(edge).count));
}

}  // namespace shmoe::runtime::rules
