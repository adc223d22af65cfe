#include "runtime/stuck_set.hpp"

#include <algorithm>

#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

bool holds(const Sight& sight, const WaitSight& wait) {
  const auto word = [&](Slot slot) { return sight.word(wait.where, slot); };
  if (wait.match == shmem::Match::sum) {
    std::uint64_t sum = 0;
    for (const Slot slot : wait.slots) sum += word(slot);
    return sum >= wait.value && sum <= wait.upper;
  }
  return std::ranges::any_of(wait.slots,
                             [&](Slot slot) { return shmem::satisfies(wait.compare, word(slot), wait.value); });
}

/// Stands still for now: somebody waits, nobody runs, and nobody is about to go on by himself.
bool stands(const Sight& sight, Rank rank) {
  bool waits = false;
  for (const CoreSight& core : sight.of(rank)) {
    if (!core.busy) continue;
    if (!core.wait || core.wait->slots.empty() || core.wait->may_give_up || holds(sight, *core.wait)) return false;
    waits = true;
  }
  return waits;
}

}  // namespace

std::vector<bool> stuck_set(const Sight& sight, const std::vector<bool>& ended) {
  std::vector<bool> stuck(ended.size());
  for (Rank rank{0}; rank.value() < sight.ranks; ++rank)
    stuck[rank.index()] = !ended[rank.index()] && stands(sight, rank);

  const auto can_be_ended = [&](const CoreSight& core) {
    if (!core.busy) return false;
    return std::ranges::any_of(sight.writers_of(*core.wait),
                               [&](Rank writer) { return !stuck[writer.index()] && !ended[writer.index()]; });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (Rank rank{0}; rank.value() < sight.ranks; ++rank) {
      if (!stuck[rank.index()] || std::ranges::none_of(sight.of(rank), can_be_ended)) continue;
      stuck[rank.index()] = false;
      changed = true;
    }
  }
  return stuck;
}

}  // namespace shmoe::runtime
