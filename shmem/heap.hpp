#pragma once
// The symmetric heap as arithmetic on offsets: it touches no memory, so the ranks that make the same calls get the same
// offsets without talking to each other.
//
//   before    | movable A | free | pinned B | free | movable C | free |
//   compact   | movable A | C    | pinned B | free                    |   C fits below B; the end becomes one range

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

/// Whether compact() may give a block another place. Movable is for blocks whose every holder follows the moves.
enum class Mobility : std::uint8_t { pinned, movable };

/// A block gets another place, always a lower one; the two may overlap.
struct Move {
  Offset from;
  Offset to;
  Bytes size;
  bool operator==(const Move&) const = default;
};

/// Where the block that began at `before` begins after the moves of one compact().
[[nodiscard]] Offset place_after(std::span<const Move> moves, Offset before);

/// Best fit. Of the free ranges that are long enough it takes the shortest, of equally long ones the one that became free
/// first; a block lies at the low end of its range. A freed block merges with both neighbours.
///
/// Units:   offsets and sizes in bytes; blocks are whole granules of 64 bytes
/// Order:   none: it touches no memory
/// Source:  mirrors the flexible allocator of CAM's HFA as published; differs in that free_bytes() is always the sum of
///          the free ranges, that a wrong free() is refused, and that defragmentation moves blocks and maps no pages
class Heap {
 public:
  static constexpr Bytes kGranule{64};

  /// A maximal free range or one live block.
  struct Block {
    Offset offset;
    Bytes size;
    bool live;
    bool operator==(const Block&) const = default;
  };

  /// Manages [begin, begin + size); bytes after the last whole granule are left out.
  ///
  /// Errors:  broken contract where begin is not on a granule or the end passes 2^64
  Heap(Offset begin, Bytes size);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Errors:  invalid_argument: zero bytes, or an alignment that is no power of two from 64 on; fragmented: enough bytes
  ///          are free, but no range of them fits; out_of_memory: not enough are. The heap is unchanged.
  Result<Offset> allocate(Bytes size, Bytes alignment = kGranule, Mobility mobility = Mobility::pinned);

  /// Errors:  invalid_argument where no live block starts at this offset; the heap is unchanged
  Result<void> free(Offset offset);

  /// Errors:  as free
  Result<void> set_mobility(Offset offset, Mobility mobility);

  /// Each movable block, by ascending offset, goes to the lowest place below it where it fits with its alignment; a pinned
  /// one stays. All stay where that would not lengthen the largest free range. A free range that is new counts as freed
  /// now, by ascending offset.
  ///
  /// Order:   the moves of the bytes, each a memmove, one after the other as returned: by ascending `from`
  std::vector<Move> compact();
  /// What compact() would return now.
  [[nodiscard]] std::vector<Move> planned_moves() const { return plan().moves; }

  /// Whole granules of the live block that starts here, or none.
  [[nodiscard]] Bytes size_of(Offset offset) const;

  [[nodiscard]] Bytes capacity() const { return capacity_; }
  /// Whole granules of the live blocks, so at least what was asked for.
  [[nodiscard]] Bytes used() const { return used_; }
  [[nodiscard]] Bytes free_bytes() const { return Bytes{capacity_.value() - used_.value()}; }
  [[nodiscard]] Bytes largest_free() const { return by_size_.empty() ? Bytes{0} : Bytes{by_size_.rbegin()->size}; }
  [[nodiscard]] std::size_t live_blocks() const { return live_.size(); }

  /// Equal on two heaps if they have the same bounds and saw the same successful calls in the same order, with the sizes
  /// as asked for; else different, but for a chance of 2^-64.
  [[nodiscard]] std::uint64_t history() const { return history_; }

  /// Calls visit(const Block&) for each block and each free range, by ascending offset.
  template <class Visitor>
  void for_each_block(Visitor&& visit) const {
    for (Id id = first_; id != kNone; id = nodes_[id].next) {
      const Node& node = nodes_[id];
      visit(Block{Offset{node.offset}, Bytes{node.size}, node.free_since == 0});
    }
  }

 private:
  using Id = std::uint32_t;
  static constexpr Id kNone = ~Id{0};
  enum class Call : std::uint64_t { create, allocate, free, set_mobility, compact };

  /// Sorts as best fit searches: by length, then by age.
  struct FreeRange {
    std::uint64_t size = 0;
    std::uint64_t since = 0;
    Id id = kNone;
    auto operator<=>(const FreeRange&) const = default;
  };
  using BySize = std::set<FreeRange>;

  /// A block or a free range; neighbours in memory are linked.
  struct Node {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t free_since = 0;  // 0: live
    std::uint64_t alignment = 0;   // live
    BySize::iterator range = {};   // free: its entry, so that none is searched for
    Id before = kNone;
    Id next = kNone;
    Mobility mobility = Mobility::pinned;  // live
  };

  struct Fit {
    Id id = kNone;
    std::uint64_t padding = 0;  // free bytes that stay in front of the block
  };

  struct Gap {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    auto operator<=>(const Gap&) const = default;
  };
  struct Plan {
    std::vector<Move> moves;
    std::vector<Gap> gaps;  // all free ranges after the moves, by ascending offset
  };

  [[nodiscard]] Fit best_fit(std::uint64_t size, std::uint64_t alignment) const;
  [[nodiscard]] Error no_fit(Bytes size, Bytes alignment) const;
  Id new_node(std::uint64_t offset, std::uint64_t size);
  Id split(Id id, std::uint64_t size);
  void absorb_next(Id id);
  void insert_free(Id id);
  void remove_free(Id id);
  /// Bytes from `offset` to the next multiple of a power of two.
  static constexpr std::uint64_t padding_to(std::uint64_t offset, std::uint64_t alignment) {
    return (0 - offset) & (alignment - 1);
  }
  static void vacate(std::vector<Gap>& gaps, Gap range);
  static std::uint64_t settle(std::vector<Gap>& gaps, std::uint64_t size, std::uint64_t alignment);
  [[nodiscard]] Plan plan() const;
  void apply(const Plan& plan);
  void relink(std::vector<Id> ids);
  void record(Call call, std::initializer_list<std::uint64_t> arguments);

  Bytes capacity_;
  Bytes used_;
  std::size_t movable_ = 0;  // live blocks
  std::uint64_t clock_ = 0;
  std::uint64_t history_ = 0;
  Id first_ = kNone;
  std::vector<Node> nodes_;
  std::vector<Id> spare_;
  BySize by_size_;
  BySize::node_type spare_range_;               // the last entry taken out: the next one goes in without an allocation
  std::unordered_map<std::uint64_t, Id> live_;  // by offset
};

}  // namespace shmoe::shmem
