#pragma once
// How a collective over a part of the ranks cuts its data: a chunk for each communicating rank, and of each chunk a
// shard that goes straight to its receiver and one for each rank that only lends memory.
//
//   group {0, 1} of ranks 0..3:  C = 2 communicate, D = 2 lend
//   0 -> 1   | shard 0     | shard 1     | shard 2 |      sh = ceil(chunk / (D + 1)), the last ones may be shorter
//              in 1's memory in 2's        in 3's
//
// Source: all-to-all and reduce-scatter detour of the published operators; a remainder of elements / C makes the first
//         chunks longer by one there where the published ones drop it.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shmem/types.hpp"

namespace shmoe::ops {

/// Element types of the detour collectives.
enum class Element : std::uint8_t { fp16, bf16, fp32, int32 };

/// False of a number that was cast to one.
constexpr bool is_known(Element type) { return type <= Element::int32; }
constexpr std::int64_t bytes_of_element(Element type) { return type == Element::fp16 || type == Element::bf16 ? 2 : 4; }
constexpr const char* name_of(Element type) {
  constexpr const char* kNames[] = {"fp16", "bf16", "fp32", "int32"};
  return kNames[static_cast<std::size_t>(type)];
}

/// The chunk of one pair of ranks, cut into shards.
struct Shards {
  std::int64_t elements = 0;  // of the chunk
  std::int32_t count = 1;     // D + 1

  /// Elements of every shard but the last ones.
  [[nodiscard]] constexpr std::int64_t length() const { return (elements + count - 1) / count; }
  /// Of the chunk; may be empty.
  [[nodiscard]] constexpr Slice at(std::int32_t shard) const {
    return {std::min(shard * length(), elements), std::min((shard + 1) * length(), elements)};
  }
};

/// Who communicates, in the order of the chunks, and who lends memory.
class DetourGroup {
 public:
  /// What is wrong with such a group; empty where nothing is.
  static std::string fault(std::span<const Rank> members, std::int32_t ranks);

  /// Of no members: all ranks.
  /// Errors:  a broken contract where fault() says something
  DetourGroup(std::span<const Rank> members, std::int32_t ranks);

  /// C
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }
  /// D
  [[nodiscard]] std::int32_t detours() const { return static_cast<std::int32_t>(lenders_.size()); }
  [[nodiscard]] Rank member(std::int32_t position) const { return members_[static_cast<std::size_t>(position)]; }
  [[nodiscard]] const std::vector<Rank>& members() const { return members_; }
  /// Ascending, whatever the order of the members.
  [[nodiscard]] Rank lender(std::int32_t detour) const { return lenders_[static_cast<std::size_t>(detour)]; }
  /// Nothing of a rank that only lends memory.
  [[nodiscard]] std::optional<std::int32_t> position_of(Rank rank) const;
  /// In whose memory a shard for `receiver` lies.
  [[nodiscard]] Rank memory_of(std::int32_t shard, Rank receiver) const {
    return shard == 0 ? receiver : lender(shard - 1);
  }

  /// The chunk of a position; the first `elements` mod C are one longer.
  [[nodiscard]] Slice chunk(std::int64_t elements, std::int32_t position) const {
    return split(elements, size(), position);
  }
  [[nodiscard]] Shards shards(std::int64_t elements, std::int32_t position) const {
    return {.elements = chunk(elements, position).size(), .count = detours() + 1};
  }

 private:
  std::vector<Rank> members_;
  std::vector<Rank> lenders_;
};

/// Where shards wait in the ipc window: a slot for each pair of positions, as large as the longest shard.
class DetourSlots {
 public:
  DetourSlots(const DetourGroup& group, std::int64_t elements, Element type);

  [[nodiscard]] Bytes slot() const { return slot_; }
  [[nodiscard]] Bytes size() const { return slot_ * static_cast<std::uint64_t>(positions_ * positions_); }
  /// From the start of the window, in whoever's memory.
  [[nodiscard]] Bytes place(std::int32_t source, std::int32_t target) const {
    return slot_ * static_cast<std::uint64_t>(source * positions_ + target);
  }

 private:
  std::int64_t positions_;
  Bytes slot_;
};

}  // namespace shmoe::ops
