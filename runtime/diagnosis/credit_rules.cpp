#include <algorithm>

#include "runtime/diagnosis/cause_rules.hpp"

namespace shmoe::runtime::rules {
namespace {

/// A producer waits until it can fill the slot.
bool waits_for_credit(const Edge& edge) { return edge.family->goes_back() && edge.side == shmem::Side::owner; }

/// A consumer waits until it is filled.
bool waits_for_fill(const Edge& edge) { return edge.family->goes_back() && edge.side == shmem::Side::source; }

std::string turns_text(const Evidence& known, const Edge& edge) {
  const auto [filled, reset] = known.turns(edge);
  return fmt::format("{} was filled {} and given back {}", slot_text(known, edge), times(filled), times(reset));
}

/// The slot is empty because somebody else than the waiting core gave it back, in this launch.
std::optional<SentSignal> taken_by_another(const Evidence& known, const Edge& edge) {
  const auto signals = known.signals_to(edge);
  if (edge.seen != 0 || signals.empty() || signals.back().value != 0) return std::nullopt;
  const SentSignal& last = signals.back();
  const bool own = last.writer == edge.core->rank && last.core == edge.core->core;
  if (own || last.launch != edge.core->launch) return std::nullopt;
  return last;
}

/// It was filled after it was last given back, and holds nothing.
bool is_emptied(const Evidence& known, const Edge& edge) {
  const auto [filled, reset] = known.turns(edge);
  if (edge.seen != 0 || filled <= reset) return false;
  const auto signals = known.signals_to(edge);
  return signals.empty() ? reset == 0 : signals.back().value != 0;
}

}  // namespace

Because no_credit(const Evidence& known, const Edge& edge) {
  const auto [filled, reset] = known.turns(edge);
  if (!waits_for_credit(edge) || filled <= reset) return std::nullopt;
  return fmt::format("{}: rank {} core {} waits to fill it again", turns_text(known, edge), edge.core->rank,
                     edge.core->core);
}

/// Full since an earlier launch, and never given back: a protocol without credits, whose slots the host clears.
Because credit_never_cleared(const Evidence& known, const Edge& edge) {
  if (!no_credit(known, edge) || known.turns(edge).reset != 0) return std::nullopt;
  const auto signals = known.signals_to(edge);
  if (signals.empty() || signals.back().launch >= edge.core->launch) return std::nullopt;
  return fmt::format(
      "{} is full since {}, launch {}, and was never given back; rank {} core {} waits to fill it in "
      "launch {}",
      slot_text(known, edge), signals.back().op, signals.back().launch, edge.core->rank, edge.core->core,
      edge.core->launch);
}

Because credit_cleared(const Evidence& known, const Edge& edge) {
  if (!waits_for_fill(edge) || !is_emptied(known, edge)) return std::nullopt;
  return fmt::format("{}, and is empty: no signal took away what rank {} wrote last", turns_text(known, edge),
                     edge.writer);
}

Because reset_twice(const Evidence& known, const Edge& edge) {
  if (!waits_for_fill(edge)) return std::nullopt;
  const auto [filled, reset] = known.turns(edge);
  if (reset > filled) {
    return fmt::format("{}: a signal was erased before rank {} core {} saw it", turns_text(known, edge),
                       edge.core->rank, edge.core->core);
  }
  const std::optional<SentSignal> other = taken_by_another(known, edge);
  if (!other || (filled > reset && other->writer == edge.where)) return std::nullopt;
  return fmt::format("{}, the last time by rank {} core {}, while rank {} core {} waits for a signal",
                     turns_text(known, edge), other->writer, other->core, edge.core->rank, edge.core->core);
}

Because merged(const Evidence& known, const Edge& edge) {
  const auto [filled, reset] = known.turns(edge);
  if (!waits_for_fill(edge) || edge.seen != 0 || filled <= reset || is_emptied(known, edge)) return std::nullopt;
  return fmt::format("{}, and is empty: rank {} filled it while it was full", turns_text(known, edge), edge.writer);
}

/// The slots of a sum are given back when all have been seen. Here the core gave one back in the launch in which it was
/// filled, and waits for it in the same.
Because cleared_early(const Evidence& known, const Edge& edge) {
  if (!waits_for_fill(edge) || edge.core->wait->match != shmem::Match::sum || edge.seen != 0) return std::nullopt;
  const auto signals = known.signals_to(edge);
  if (signals.size() < 2) return std::nullopt;
  const SentSignal& fill = signals[signals.size() - 2];
  const SentSignal& last = signals.back();
  const bool own = last.launch == edge.core->launch && last.writer == edge.core->rank && edge.core->core == last.core;
  if (!own || last.value != 0 || fill.value == 0 || fill.launch != last.launch) return std::nullopt;
  return fmt::format("rank {} core {} set {} to {} at {}, and rank {} core {} cleared it at {}, and waits for it",
                     fill.writer, fill.core, slot_text(known, edge), word_text(known, edge, fill.value), fill.site,
                     last.writer, last.core, last.site);
}

}  // namespace shmoe::runtime::rules
