#include "runtime/diagnosis/sight.hpp"

#include <algorithm>

#include "shmem/wait.hpp"

namespace shmoe::runtime {

bool Sight::ended(Rank rank) const {
  return std::ranges::none_of(of(rank), [](const CoreSight& core) { return core.busy; });
}

std::optional<Rank> Sight::member(Rank world) const {
  if (members.empty()) return world;
  const auto found = std::ranges::find(members, world);
  return found == members.end() ? std::nullopt : std::optional(Rank{found - members.begin()});
}

bool Sight::holds(const WaitSight& wait) const {
  const auto seen = [&](Slot slot) { return word(wait.where, slot); };
  if (wait.match == shmem::Match::sum) {
    std::uint64_t sum = 0;
    for (const Slot slot : wait.slots) sum += seen(slot);
    return sum >= wait.value && sum <= wait.upper;
  }
  return std::ranges::any_of(wait.slots,
                             [&](Slot slot) { return shmem::satisfies(wait.compare, seen(slot), wait.value); });
}

std::vector<Rank> Sight::writers_of(const WaitSight& wait) const {
  std::vector<Rank> writers;
  for (Rank rank{0}; rank.value() < ranks; ++rank) {
    const auto writes = [&](Slot slot) {
      if (!slots->may_write(slot, wait.where, rank)) return false;
      if (wait.match == shmem::Match::sum) return true;
      return shmem::awaited_writer(*slots, slot, wait.where, wait.compare, wait.value).value_or(rank) == rank;
    };
    if (std::ranges::any_of(wait.slots, writes)) writers.push_back(rank);
  }
  return writers;
}

}  // namespace shmoe::runtime
