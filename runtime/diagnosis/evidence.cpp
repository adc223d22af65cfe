#include "runtime/diagnosis/evidence.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "shmem/wait.hpp"

namespace shmoe::runtime {

namespace {

/// Of one slot; of a sum of several nobody knows.
std::uint64_t largest(const WaitSight& wait) {
  if (wait.match == shmem::Match::sum && wait.slots.size() == 1) return wait.upper;
  return wait.match != shmem::Match::sum && wait.compare == Compare::equal ? wait.value
                                                                           : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

bool Edge::ends_with(std::uint64_t word) const { return shmem::satisfies(compare, word, wanted) && word <= upper; }

// The published round counts in 30 bits above 32 of the value; a count of our own never comes near 2^61.
bool is_later(const Sight& sight, const shmem::SlotFamily& family, std::uint64_t word, std::uint64_t than) {
  if (word == 0) return false;  // nobody has written it
  const bool of_rounds = &family == &sight.slots->barrier() || &family == &sight.slots->flag();
  if (!of_rounds) return word > than;
  constexpr std::uint64_t kTurn = std::uint64_t{1} << 62;
  const std::uint64_t ahead = (word - than) % kTurn;
  return ahead != 0 && ahead < kTurn / 2;
}

Evidence::Evidence(const Sight& sight) : sight_(&sight) {
  for (const CoreSight& core : sight.cores) {
    if (core.busy && core.wait) add_edges(core);
  }
}

void Evidence::add_edges(const CoreSight& core) {
  const WaitSight& wait = *core.wait;
  for (const Slot slot : wait.slots) {
    const shmem::SlotFamily& family = sight_->slots->family_of(slot);
    const bool by_zero = family.goes_back() && shmem::satisfies(wait.compare, 0, wait.value);
    const shmem::Side side = by_zero ? shmem::Side::owner : shmem::Side::source;
    const std::optional<Rank> writer = sight_->slots->writer_of(slot, wait.where, side);
    if (!writer) continue;
    const bool in_range = wait.match == shmem::Match::sum;
    const std::uint64_t seen = sight_->word(wait.where, slot);
    edges_.push_back({.core = &core,
                      .where = wait.where,
                      .slot = slot,
                      .compare = in_range ? Compare::at_least : wait.compare,
                      .wanted = in_range && wait.slots.size() > 1 ? seen + 1 : wait.value,
                      .upper = largest(wait),
                      .seen = seen,
                      .family = &family,
                      .side = side,
                      .writer = *writer});
  }
}

SlotPlace Evidence::place_of(const Edge& edge) {
  const shmem::SlotFamily& family = *edge.family;
  const std::uint32_t index = edge.slot.value() - family.first;
  return {.buffer = index / family.events / family.sources,
          .source = Rank{index / family.events % family.sources},
          .event = index % family.events};
}

LedgerSight Evidence::sent(Rank writer, Rank owner, Slot slot, shmem::Side side) const {
  if (!sight_->ledger) return {};
  return sight_->ledger(writer, owner, slot, side);
}

Evidence::Turns Evidence::turns(const Edge& edge) const {
  return {.filled = sent(place_of(edge).source, edge.where, edge.slot, shmem::Side::source).count,
          .reset = sent(edge.where, edge.where, edge.slot, shmem::Side::owner).count};
}

std::uint64_t Evidence::sent_back(const Edge& edge) const {
  const SlotPlace place = place_of(edge);
  return sent(edge.where, edge.writer, edge.family->at(place.buffer, edge.where, place.event)).count;
}

std::vector<Evidence::Sibling> Evidence::siblings(const Edge& edge) const {
  std::vector<Sibling> all;
  for (Rank owner{0}; owner.value() < sight_->ranks; ++owner) {
    if (owner == edge.where || owner == edge.writer) continue;
    all.push_back({owner, sent(edge.writer, owner, edge.slot)});
  }
  return all;
}

std::int32_t Evidence::fan_out(const Edge& edge) const {
  const SlotPlace place = place_of(edge);
  const auto [found, added] = fan_outs_.try_emplace(edge.family->at(place.buffer, Rank{0}, place.event), 0);
  if (added) found->second = count_fan_out(edge);
  return found->second;
}

std::int32_t Evidence::count_fan_out(const Edge& edge) const {
  const SlotPlace place = place_of(edge);
  std::int32_t most = 0;
  for (Rank source{0}; source.value() < sight_->ranks; ++source) {
    const Slot slot = edge.family->at(place.buffer, source, place.event);
    std::int32_t reached = 0;
    for (Rank owner{0}; owner.value() < sight_->ranks; ++owner) reached += sent(source, owner, slot).count > 0 ? 1 : 0;
    most = std::max(most, reached);
  }
  return most;
}

const RankHistory& Evidence::history(Rank rank) const {
  const auto [found, added] = histories_.try_emplace(rank);
  if (added) found->second = history_of(*sight_, rank);
  return found->second;
}

const std::vector<SentSignal>& Evidence::signals_of(Slot slot) const {
  if (signals_.empty()) {
    for (Rank writer{0}; writer.value() < sight_->ranks; ++writer) {
      for (const SentSignal& signal : history(writer).signals) signals_[signal.slot].push_back(signal);
    }
    for (auto& [key, all] : signals_) {
      std::stable_sort(all.begin(), all.end(), [](const SentSignal& a, const SentSignal& b) { return a.at < b.at; });
    }
  }
  return signals_[slot];
}

std::vector<SentSignal> Evidence::signals_to(const Edge& edge) const {
  std::vector<SentSignal> all;
  std::ranges::copy_if(signals_of(edge.slot), std::back_inserter(all),
                       [&](const SentSignal& signal) { return signal.reaches(edge.where); });
  return all;
}

const CoreSight* Evidence::beside(const Edge& edge) const {
  const auto cores = sight_->of(edge.writer);
  const auto found = std::ranges::find_if(cores, [&](const CoreSight& core) {
    return core.busy && core.launch == edge.core->launch && core.op == edge.core->op;
  });
  return found == cores.end() ? nullptr : &*found;
}

bool Evidence::has_passed(const Edge& edge) const {
  if (!is_barrier(edge)) return false;
  return std::ranges::any_of(sight_->of(edge.writer), [&](const CoreSight& core) {
    if (!core.busy || !core.wait) return false;
    const bool barrier = &sight_->slots->family_of(core.wait->slot()) == edge.family;
    return barrier && !is_later(*sight_, *edge.family, edge.wanted, core.wait->value);
  });
}

bool Evidence::counts_rounds(const CoreSight& core) const {
  return sight_->magic && core.busy && core.wait && magic(core) == core.round.value() + 1;
}

bool Evidence::has_rounds(const Edge& edge) const { return is_barrier(edge) || edge.family == &sight_->slots->flag(); }

bool Evidence::is_past(const Edge& edge) const {
  const bool bounded = edge.upper != std::numeric_limits<std::uint64_t>::max();
  return bounded && is_later(*sight_, *edge.family, edge.seen, edge.upper);
}

}  // namespace shmoe::runtime
