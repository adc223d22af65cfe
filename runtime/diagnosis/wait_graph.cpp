#include "runtime/diagnosis/wait_graph.hpp"

#include <algorithm>

namespace shmoe::runtime {
namespace {

bool waits_in(const Sight& sight, Rank rank) {
  const std::optional<Rank> member = sight.member(rank);
  return member && !sight.ended(*member);
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

WaitGraph::WaitGraph(std::span<const Sight> sights, const std::vector<bool>& ended)
    : sights_(sights), edges_(ended.size()) {
  for (Rank rank{0}; rank.index() < ended.size(); ++rank) {
    standing_.push_back(find_standing(rank, ended[rank.index()]));
    if (standing_.back() != Standing::waits) continue;
    std::vector<Rank>& edges = edges_[rank.index()];
    each_busy(sights_, rank, [&](const Sight& sight, const CoreSight& core) {
      for (const Rank writer : sight.writers_of(*core.wait)) edges.push_back(sight.world(writer));
    });
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::erase(edges, rank);
  }
}

Standing WaitGraph::find_standing(Rank rank, bool ended) const {
  if (ended) return Standing::ended;
  Standing standing = Standing::outside;
  each_busy(sights_, rank, [&](const Sight& sight, const CoreSight& core) {
    const bool waits = core.wait && !sight.holds(*core.wait) && standing != Standing::goes_on;
    standing = waits ? Standing::waits : Standing::goes_on;
  });
  return standing;
}

std::vector<Rank> WaitGraph::behind(Rank rank, const Sight& in) const {
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
  std::erase_if(ahead, [&](Rank other) { return !waits_in(in, other); });
  std::ranges::sort(ahead);
  return ahead;
}

std::optional<WaitGraph::Root> WaitGraph::root(const Sight& in) const {
  std::optional<Root> best;
  for (Rank rank{0}; rank.index() < edges_.size(); ++rank) {
    if (standing(rank) == Standing::waits) continue;
    std::vector<Rank> waiting = behind(rank, in);
    if (!waiting.empty() && (!best || waiting.size() > best->behind.size())) best = Root{rank, std::move(waiting)};
  }
  return best;
}

/// By the first of its cores that is in an operator.
RankGroup WaitGraph::alone(Rank rank) const {
  RankGroup group{.ranks = {rank}, .standing = standing(rank), .op = {}, .round = {}};
  if (group.standing != Standing::goes_on && group.standing != Standing::waits) return group;
  each_busy(sights_, rank, [&](const Sight& sight, const CoreSight& core) {
    if (group.in != nullptr) return;
    group.in = &sight;
    group.op = core.op;
    group.round = core.round;
  });
  return group;
}

std::vector<RankGroup> WaitGraph::groups(const Sight& of) const {
  std::vector<RankGroup> groups;
  for (Rank member{0}; member.value() < of.ranks; ++member) {
    const RankGroup own = alone(of.world(member));
    const auto same = std::ranges::find_if(groups, [&](const RankGroup& group) {
      return group.standing == own.standing && group.op == own.op && group.round == own.round && group.in == own.in;
    });
    if (same == groups.end()) {
      groups.push_back(own);
    } else {
      same->ranks.push_back(own.ranks.front());
    }
  }
  return groups;
}

}  // namespace shmoe::runtime
