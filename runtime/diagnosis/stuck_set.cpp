#include "runtime/diagnosis/stuck_set.hpp"

#include <algorithm>

namespace shmoe::runtime {
namespace {

bool ends(const Sight& sight, const CoreSight& core) {
  if (!core.wait || core.wait->slots.empty() || core.wait->may_give_up || sight.holds(*core.wait)) return true;
  return sight.open_ended && sight.open_ended(core.rank);
}

/// Stands still for now: somebody waits, nobody runs, and nobody is about to go on by himself.
bool stands(std::span<const Sight> sights, Rank rank) {
  bool waits = false;
  bool goes_on = false;
  each_busy(sights, rank, [&](const Sight& sight, const CoreSight& core) {
    waits = true;
    goes_on = goes_on || ends(sight, core);
  });
  return waits && !goes_on;
}

}  // namespace

std::vector<bool> stuck_set(std::span<const Sight> sights, const std::vector<bool>& ended) {
  const auto ranks = static_cast<std::int64_t>(ended.size());
  std::vector<bool> stuck(ended.size());
  for (Rank rank{0}; rank.value() < ranks; ++rank) stuck[rank.index()] = !ended[rank.index()] && stands(sights, rank);

  const auto can_be_ended = [&](Rank rank) {
    bool can = false;
    each_busy(sights, rank, [&](const Sight& sight, const CoreSight& core) {
      can = can || std::ranges::any_of(sight.writers_of(*core.wait), [&](Rank writer) {
              const std::size_t world = sight.world(writer).index();
              return !stuck[world] && !ended[world];
            });
    });
    return can;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (Rank rank{0}; rank.value() < ranks; ++rank) {
      if (!stuck[rank.index()] || !can_be_ended(rank)) continue;
      stuck[rank.index()] = false;
      changed = true;
    }
  }
  return stuck;
}

}  // namespace shmoe::runtime
