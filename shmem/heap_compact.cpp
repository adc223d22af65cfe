#include <algorithm>
#include <iterator>
#include <utility>

#include "shmem/heap.hpp"

namespace shmoe::shmem {

Offset place_after(std::span<const Move> moves, Offset before) {
  const auto move = std::ranges::lower_bound(moves, before, {}, &Move::from);
  return move != moves.end() && move->from == before ? move->to : before;
}

/// Adds a range that lies behind all gaps.
void Heap::vacate(std::vector<Gap>& gaps, Gap range) {
  if (!gaps.empty() && gaps.back().offset + gaps.back().size == range.offset) {
    gaps.back().size += range.size;
  } else {
    gaps.push_back(range);
  }
}

/// Takes the lowest place that fits; there is one.
std::uint64_t Heap::settle(std::vector<Gap>& gaps, std::uint64_t size, std::uint64_t alignment) {
  const auto gap = std::ranges::find_if(gaps, [&](const Gap& g) {
    const std::uint64_t padding = padding_to(g.offset, alignment);
    return size <= g.size && padding <= g.size - size;
  });
  const std::uint64_t padding = padding_to(gap->offset, alignment);
  const std::uint64_t place = gap->offset + padding;
  const Gap rest{place + size, gap->size - padding - size};
  gap->size = padding;
  const auto behind = padding == 0 ? gaps.erase(gap) : std::next(gap);
  if (rest.size != 0) gaps.insert(behind, rest);
  return place;
}

/// A movable block gives up its place first, so that it may slide by less than its own length. What lies below has been
/// through this already, so nothing that is still to move is overwritten.
Heap::Plan Heap::plan() const {
  Plan plan;
  for (Id id = first_; id != kNone; id = nodes_[id].next) {
    const Node& node = nodes_[id];
    const bool live = node.free_since == 0;
    if (live && node.mobility == Mobility::pinned) continue;
    vacate(plan.gaps, {node.offset, node.size});
    if (!live) continue;
    const std::uint64_t place = settle(plan.gaps, node.size, node.alignment);
    if (place != node.offset) plan.moves.push_back({Offset{node.offset}, Offset{place}, Bytes{node.size}});
  }
  const auto longest = std::ranges::max_element(plan.gaps, {}, &Gap::size);
  if (longest == plan.gaps.end() || longest->size <= largest_free().value()) plan.moves.clear();
  return plan;
}

std::vector<Move> Heap::compact() {
  Plan next = plan();
  record(Call::compact, {});
  if (!next.moves.empty()) apply(next);
  return std::move(next.moves);
}

void Heap::apply(const Plan& plan) {
  for (const Move& move : plan.moves) {
    auto entry = live_.extract(move.from.value());
    entry.key() = move.to.value();
    nodes_[entry.mapped()].offset = move.to.value();
    live_.insert(std::move(entry));
  }
  std::vector<Id> ids;
  std::vector<Gap> old;
  for (Id id = first_; id != kNone; id = nodes_[id].next) {
    const Gap range{nodes_[id].offset, nodes_[id].size};
    const bool is_free = nodes_[id].free_since != 0;
    if (!is_free || std::ranges::binary_search(plan.gaps, range)) {
      ids.push_back(id);
      if (is_free) old.push_back(range);
    } else {
      remove_free(id);
      spare_.push_back(id);
    }
  }
  for (const Gap& gap : plan.gaps) {
    if (std::ranges::binary_search(old, gap)) continue;
    ids.push_back(new_node(gap.offset, gap.size));
    insert_free(ids.back());
  }
  relink(std::move(ids));
}

void Heap::relink(std::vector<Id> ids) {
  std::ranges::sort(ids, {}, [&](Id id) { return nodes_[id].offset; });
  first_ = ids.front();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    nodes_[ids[i]].before = i == 0 ? kNone : ids[i - 1];
    nodes_[ids[i]].next = i + 1 == ids.size() ? kNone : ids[i + 1];
  }
}

}  // namespace shmoe::shmem
