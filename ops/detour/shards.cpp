#include "ops/detour/shards.hpp"

#include "shmem/result.hpp"

namespace shmoe::ops {
namespace {

constexpr std::uint64_t kSlotGranule = 64;  // a cache line: two writers never share one

std::string member_fault(std::span<const Rank> members, std::size_t index, std::int32_t ranks) {
  const Rank rank = members[index];
  if (rank.value() < 0 || rank.value() >= ranks) {
    return fmt::format("the group names rank {}; there are ranks 0 to {}", rank, ranks - 1);
  }
  const auto before = members.first(index);
  if (std::ranges::find(before, rank) == before.end()) return {};
  return fmt::format("the group names rank {} twice: name each rank once", rank);
}

}  // namespace

std::string DetourGroup::fault(std::span<const Rank> members, std::int32_t ranks) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (std::string text = member_fault(members, i, ranks); !text.empty()) return text;
  }
  return {};
}

DetourGroup::DetourGroup(std::span<const Rank> members, std::int32_t ranks) : members_(members.begin(), members.end()) {
  const std::string text = fault(members, ranks);
  SHMOE_EXPECTS(text.empty(), "{}", text);
  for (Rank rank{0}; rank.value() < ranks; ++rank) {
    if (members.empty()) {
      members_.push_back(rank);
    } else if (std::ranges::find(members, rank) == members.end()) {
      lenders_.push_back(rank);
    }
  }
}

std::optional<std::int32_t> DetourGroup::position_of(Rank rank) const {
  const auto found = std::ranges::find(members_, rank);
  if (found == members_.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - members_.begin());
}

DetourSlots::DetourSlots(const DetourGroup& group, std::int64_t elements, Element type)
    : positions_(group.size()),
      slot_(round_up(static_cast<std::uint64_t>(group.shards(elements, 0).length() * bytes_of_element(type)),
                     kSlotGranule)) {}

}  // namespace shmoe::ops
