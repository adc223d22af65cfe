#include "runtime/wait_graph.hpp"

#include <algorithm>

#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

bool is_over(const Sight& sight, const WaitSight& wait) {
  const auto word = [&](Slot slot) { return sight.word(wait.where, slot); };
  if (wait.match == shmem::Match::sum) {
    std::uint64_t sum = 0;
    for (const Slot slot : wait.slots) sum += word(slot);
    return sum >= wait.value && sum <= wait.upper;
  }
  return std::ranges::any_of(wait.slots,
                             [&](Slot slot) { return shmem::satisfies(wait.compare, word(slot), wait.value); });
}

/// The core by which a rank is described: one in an operator, where there is one.
const CoreSight& spokesman(std::span<const CoreSight> cores) {
  const auto busy = std::ranges::find(cores, true, &CoreSight::busy);
  return busy == cores.end() ? cores.front() : *busy;
}

}  // namespace

std::string_view name_of(Standing standing) {
  switch (standing) {
    case Standing::goes_on: return "goes on";
    case Standing::waits: return "waits";
    case Standing::outside: return "between operators";
    case Standing::ended: return "ended";
  }
  return "unknown";
}

WaitGraph::WaitGraph(const Sight& sight, const std::vector<bool>& ended) : sight_(&sight), edges_(ended.size()) {
  for (Rank rank{0}; rank.value() < sight.ranks; ++rank) {
    standing_.push_back(find_standing(rank, ended[rank.index()]));
    if (standing_.back() != Standing::waits) continue;
    std::vector<Rank>& edges = edges_[rank.index()];
    for (const CoreSight& core : sight.of(rank)) {
      if (core.busy && core.wait) std::ranges::copy(sight.writers_of(*core.wait), std::back_inserter(edges));
    }
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::erase(edges, rank);
  }
}

Standing WaitGraph::find_standing(Rank rank, bool ended) const {
  if (ended) return Standing::ended;
  const auto cores = sight_->of(rank);
  if (std::ranges::none_of(cores, &CoreSight::busy)) return Standing::outside;
  const bool waits =
      std::ranges::all_of(cores, [&](const CoreSight& c) { return !c.busy || (c.wait && !is_over(*sight_, *c.wait)); });
  return waits ? Standing::waits : Standing::goes_on;
}

std::vector<Rank> WaitGraph::behind(Rank rank) const {
  std::vector<bool> reached(edges_.size());
  std::vector<Rank> ahead{rank};
  for (std::size_t next = 0; next < ahead.size(); ++next) {
    for (Rank other{0}; other.index() < edges_.size(); ++other) {
      if (reached[other.index()] || std::ranges::find(waits_for(other), ahead[next]) == waits_for(other).end())
        continue;
      reached[other.index()] = true;
      ahead.push_back(other);
    }
  }
  ahead.erase(ahead.begin());
  std::ranges::sort(ahead);
  return ahead;
}

std::optional<WaitGraph::Root> WaitGraph::root() const {
  std::optional<Root> best;
  for (Rank rank{0}; rank.index() < edges_.size(); ++rank) {
    if (standing(rank) == Standing::waits) continue;
    std::vector<Rank> waiting = behind(rank);
    if (!waiting.empty() && (!best || waiting.size() > best->behind.size())) best = Root{rank, std::move(waiting)};
  }
  return best;
}

std::vector<RankGroup> WaitGraph::groups() const {
  std::vector<RankGroup> groups;
  for (Rank rank{0}; rank.value() < sight_->ranks; ++rank) {
    const CoreSight& core = spokesman(sight_->of(rank));
    const bool inside = standing(rank) == Standing::goes_on || standing(rank) == Standing::waits;
    const RankGroup own{.ranks = {rank},
                        .standing = standing(rank),
                        .op = inside ? core.op : std::string(),
                        .round = inside ? core.round : Round{}};
    const auto same = std::ranges::find_if(groups, [&](const RankGroup& group) {
      return group.standing == own.standing && group.op == own.op && group.round == own.round;
    });
    if (same == groups.end()) {
      groups.push_back(own);
    } else {
      same->ranks.push_back(rank);
    }
  }
  return groups;
}

}  // namespace shmoe::runtime
