#pragma once
// Teams of the tile language as lists of world ranks, for World::communicator.

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/communicator.hpp"

namespace shmoe::ops::tile {

/// Every stride-th rank of a parent, from `start` on. Whoever is not in the list makes no communicator.
/// Errors:  beyond the parent's ranks: a broken contract.
inline std::vector<Rank> split_strided(const runtime::Communicator& parent, Rank start, std::int32_t stride,
                                       std::int32_t size) {
  std::vector<Rank> members;
  for (std::int32_t i = 0; i < size; ++i) {
    const std::int64_t rank = start.value() + std::int64_t{i} * stride;
    SHMOE_EXPECTS(rank >= 0 && rank < parent.ranks() && stride != 0,
                  "a team of {} ranks from {} by {} leaves its parent, which has {}", size, start, stride,
                  parent.ranks());
    members.push_back(parent.world_rank(Rank{rank}));
  }
  return members;
}

/// The two teams of this rank where the parent's ranks lie in rows of `width`; the last row may be shorter.
struct Split2d {
  std::vector<Rank> row;
  std::vector<Rank> column;
};
/// Errors:  a width below 1: a broken contract.
inline Split2d split_2d(const runtime::Communicator& parent, std::int32_t width) {
  SHMOE_EXPECTS(width >= 1, "rows of {} ranks", width);
  const std::int32_t me = parent.rank().value();
  const std::int32_t first = me / width * width;
  const std::int32_t column = me % width;
  return {.row = split_strided(parent, Rank{first}, 1, std::min(width, parent.ranks() - first)),
          .column = split_strided(parent, Rank{column}, width, (parent.ranks() - column + width - 1) / width)};
}

/// Who a rank of one team is in another; nothing where it is not in there.
inline std::optional<Rank> translate_pe(const runtime::Communicator& from, Rank rank, const runtime::Communicator& to) {
  const auto found = std::ranges::find(to.members(), from.world_rank(rank));
  if (found == to.members().end()) return std::nullopt;
  return Rank{found - to.members().begin()};
}

}  // namespace shmoe::ops::tile
