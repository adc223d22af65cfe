#include <algorithm>

#include "runtime/diagnosis/cause_rules.hpp"

namespace shmoe::runtime::rules {
namespace {

/// What a core without coherent caches writes at least.
constexpr std::uint64_t kLineBytes = 64;

/// The writer has gone on and written its next word over the awaited one. Where both sides signal in turn, its ledger is
/// ahead of the other's.
bool overtaken(const Evidence& known, const Edge& edge) {
  if (!known.is_past(edge) || !edge.family->has_sources() || edge.family->op != shmem::SignalOp::set) return false;
  return known.has_rounds(edge) ? known.sent(edge).count > known.sent_back(edge) : known.sent(edge).count > 1;
}

std::string overtaken_text(const Evidence& known, const Edge& edge) {
  return fmt::format(
      "rank {} wrote {} over {} in {} before rank {} core {} had seen it: rank {} signalled it {}, and rank {} "
      "answered {}",
      edge.writer, word_text(known, edge, edge.seen), word_text(known, edge, edge.wanted), slot_text(known, edge),
      edge.core->rank, edge.core->core, edge.writer, times(known.sent(edge).count), edge.where,
      times(known.sent_back(edge)));
}

/// What was written is gone. Of a slot that only its writer writes, and only sets.
bool lost(const Evidence& known, const Edge& edge) {
  if (!by_source(edge) || edge.family->goes_back() || edge.family->op != shmem::SignalOp::set) return false;
  const LedgerSight sent = known.sent(edge);
  return sent.count > 0 && edge.ends_with(sent.value);
}

std::string lost_text(const Evidence& known, const Edge& edge) {
  const LedgerSight sent = known.sent(edge);
  return fmt::format("rank {} core {} wrote {} to {} at {}, and {} lies there", edge.writer, sent.core,
                     word_text(known, edge, sent.value), slot_text(known, edge), sent.site(),
                     word_text(known, edge, edge.seen));
}

/// Some bytes are 0, and the others as they were written.
bool is_part_of(std::uint64_t seen, std::uint64_t written) {
  for (int shift = 0; shift < 64; shift += 8) {
    const std::uint64_t byte = seen >> shift & 0xFFU;
    if (byte != 0 && byte != (written >> shift & 0xFFU)) return false;
  }
  return true;
}

/// Whose signal the word is, where it is not the writer's.
std::optional<SentSignal> stranger(const Evidence& known, const Edge& edge) {
  const auto signals = known.signals_to(edge);
  const auto last = std::find_if(signals.rbegin(), signals.rend(), [&](const SentSignal& signal) {
    return signal.writer != edge.writer && signal.value == edge.seen;
  });
  return last == signals.rend() ? std::nullopt : std::optional(*last);
}

/// How far the clear has reached.
std::string cleared_text(const Evidence& known, const Edge& edge) {
  if (edge.seen != 0) return "some of its bytes are 0";
  std::uint32_t written = 0;
  std::uint32_t empty = 0;
  for (std::uint32_t i = 0; i < edge.family->count(); ++i) {
    const Slot slot{edge.family->first + i};
    const std::optional<Rank> writer = known.sight().slots->writer_of(slot, edge.where, shmem::Side::source);
    const LedgerSight sent = known.sent(*writer, edge.where, slot);
    if (sent.count == 0 || sent.value == 0) continue;
    ++written;
    if (known.sight().word(edge.where, slot) == 0) ++empty;
  }
  return fmt::format("{} of {} written slots of {} on rank {} hold 0", empty, written, edge.family->name, edge.where);
}

std::uint64_t line_of(const Evidence& known, Slot slot) {
  return known.sight().slots->offset_of(slot).value() / kLineBytes;
}

/// A slot of the same line that another core of the writer has set since, and that is as it was set.
std::optional<Slot> set_beside(const Evidence& known, const Edge& edge) {
  const auto last_to = [&](Slot slot) {
    Edge at = edge;
    at.slot = slot;
    const auto signals = known.signals_to(at);
    return signals.empty() ? shmem::Time{0} : signals.back().at;
  };
  for (std::uint32_t i = 0; i < edge.family->count(); ++i) {
    const Slot slot{edge.family->first + i};
    if (slot == edge.slot || line_of(known, slot) != line_of(known, edge.slot)) continue;
    const LedgerSight there = known.sent(edge.writer, edge.where, slot);
    const bool stands = there.count > 0 && known.sight().word(edge.where, slot) == there.value;
    if (stands && there.core != known.sent(edge).core && last_to(slot) > last_to(edge.slot)) return slot;
  }
  return std::nullopt;
}

/// A word of another line is gone as well, beside which nobody has set one.
bool is_cleared_elsewhere(const Evidence& known, const Edge& edge) {
  for (std::uint32_t i = 0; i < edge.family->count(); ++i) {
    Edge other = edge;
    other.slot = Slot{edge.family->first + i};
    other.writer = *known.sight().slots->writer_of(other.slot, edge.where, shmem::Side::source);
    const LedgerSight sent = known.sent(other);
    const bool gone = sent.count > 0 && sent.value != 0 && known.sight().word(edge.where, other.slot) == 0;
    if (!gone || line_of(known, other.slot) == line_of(known, edge.slot)) continue;
    if (!set_beside(known, other)) return true;
  }
  return false;
}

}  // namespace

Because two_barriers(const Evidence& known, const Edge& edge) {
  if (!overtaken(known, edge) || !has_magic(known, edge) || edge.seen >> 32 != edge.wanted >> 32) return std::nullopt;
  return overtaken_text(known, edge);
}

Because buffer_reused(const Evidence& known, const Edge& edge) {
  if (!overtaken(known, edge) || two_barriers(known, edge)) return std::nullopt;
  return overtaken_text(known, edge);
}

/// The writer's word for this wait was there, and a word of another operator was written over it.
Because shared_window(const Evidence& known, const Edge& edge) {
  const bool of_rounds = known.is_barrier(edge) || (known.has_rounds(edge) && known.is_past(edge));
  if (!by_source(edge) || of_rounds) return std::nullopt;
  const auto signals = known.signals_to(edge);
  const auto right = std::find_if(signals.rbegin(), signals.rend(), [&](const SentSignal& signal) {
    const bool for_this = signal.op == edge.core->op && signal.launch == edge.core->launch;
    return signal.writer == edge.writer && for_this && edge.ends_with(signal.value);
  });
  const auto over = std::find_if(signals.rbegin(), right, [&](const SentSignal& signal) {
    return signal.op != edge.core->op && signal.value == edge.seen;
  });
  if (right == signals.rend() || over == right) return std::nullopt;
  return fmt::format("rank {} core {} wrote {} to {} in {}, and rank {} core {} wrote {} over it in {}", right->writer,
                     right->core, word_text(known, edge, right->value), slot_text(known, edge), right->op, over->writer,
                     over->core, word_text(known, edge, over->value), over->op);
}

/// This launch has added no more than it is waited for; the rest lay there before.
Because never_cleared(const Evidence& known, const Edge& edge) {
  if (!known.is_past(edge) || edge.family->op != shmem::SignalOp::add) return std::nullopt;
  std::uint64_t before = 0;
  std::uint64_t now = 0;
  for (const SentSignal& signal : known.signals_to(edge)) {
    (signal.launch < edge.core->launch ? before : now) += signal.value;
  }
  if (before < edge.wanted || now > edge.wanted || before + now != edge.seen) return std::nullopt;
  return fmt::format("{} holds {}, of which {} was counted before {} began; the wait looks for {}",
                     slot_text(known, edge), edge.seen, before, edge.core->op, edge.wanted);
}

Because doubled(const Evidence& known, const Edge& edge) {
  if (!known.is_past(edge) || edge.family->op != shmem::SignalOp::add) return std::nullopt;
  return fmt::format("{} has counted to {} and the wait looks for {}", slot_text(known, edge), edge.seen, edge.wanted);
}

Because shared_line(const Evidence& known, const Edge& edge) {
  const std::optional<Slot> beside = lost(known, edge) ? set_beside(known, edge) : std::nullopt;
  if (!beside || is_cleared_elsewhere(known, edge)) return std::nullopt;
  const LedgerSight there = known.sent(edge.writer, edge.where, *beside);
  return fmt::format("{}; core {} has set {} since, at {}, in the same line of {} bytes", lost_text(known, edge),
                     there.core, known.sight().slots->describe(*beside), there.site(), kLineBytes);
}

Because cleared(const Evidence& known, const Edge& edge) {
  const bool gone = lost(known, edge) && is_part_of(edge.seen, known.sent(edge).value);
  if (!gone || stranger(known, edge)) return std::nullopt;
  return fmt::format("{}; {}", lost_text(known, edge), cleared_text(known, edge));
}

Because erased(const Evidence& known, const Edge& edge) {
  if (!lost(known, edge) || cleared(known, edge)) return std::nullopt;
  const std::optional<SentSignal> other = stranger(known, edge);
  if (!other) return lost_text(known, edge);
  return fmt::format("{}: rank {} core {} wrote it in {}", lost_text(known, edge), other->writer, other->core,
                     other->op);
}

Because wrong_word(const Evidence& known, const Edge& edge) {
  const LedgerSight sent = known.sent(edge);
  if (!by_word(edge) || sent.count == 0 || sent.value != edge.seen) return std::nullopt;
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

}  // namespace shmoe::runtime::rules
