#include "ops/tile/tile.hpp"

namespace shmoe::ops::tile {

Tile::Condition Tile::condition(Cmp cmp, std::uint64_t value, SourceSite site) {
  switch (cmp) {
    case Cmp::eq: return {Compare::equal, value};
    case Cmp::ne: return {Compare::not_equal, value};
    case Cmp::gt: return {Compare::at_least, value + 1};
    case Cmp::ge: return {Compare::at_least, value};
    case Cmp::le: return {Compare::at_most, value};
    case Cmp::lt: break;
  }
  SHMOE_EXPECTS(value != 0, "a wait at {}:{} for less than 0, which no signal is", site.file, site.line);
  return {Compare::at_most, value - 1};
}

std::pmr::vector<Slot> Tile::included(Slot first, std::uint32_t count, std::span<const int> mask) const {
  SHMOE_EXPECTS(mask.empty() || mask.size() == count, "a mask of {} for {} slots", mask.size(), count);
  std::pmr::vector<Slot> slots(context_->workspace());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (mask.empty() || mask[i] == 0) slots.emplace_back(first.value() + i);
  }
  return slots;
}

Tile::Found Tile::wait_on(std::span<const Slot> slots, shmem::Match match, Condition until, SourceSite site) {
  if (slots.empty()) return {kNone, shmem::Witness::own()};
  shmem::Token token = context_->wait(
      {.where = rank(), .slots = slots, .match = match, .compare = until.compare, .value = until.value}, site);
  const std::size_t index = token.arrival().index;
  return {index, shmem::consume_token(std::move(token))};
}

bool Tile::holds(Slot slot, Condition until, SourceSite site) {
  std::optional<shmem::Token> seen =
      context_->test({.where = rank(), .slots = {&slot, 1}, .compare = until.compare, .value = until.value}, site);
  if (!seen) return false;
  std::move(*seen).ordering_only();
  return true;
}

Tile::Several Tile::those_that_hold(std::span<const Slot> slots, Slot first, Condition until, std::size_t seen,
                                    std::span<std::size_t> indices, SourceSite site) {
  std::size_t several = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i == seen || holds(slots[i], until, site)) indices[several++] = slots[i].value() - first.value();
  }
  return {several, shmem::Witness::own()};
}

}  // namespace shmoe::ops::tile
