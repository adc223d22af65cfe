#pragma once
// The symmetric heap as arithmetic on offsets: it touches no memory, so the ranks that make the same calls get the same
// offsets without talking to each other.

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

/// Best fit. Of the free ranges that are long enough it takes the shortest, of equally long ones the one that became free
/// first; a block lies at the low end of its range. A freed block merges with both neighbours.
///
/// Units:   offsets and sizes in bytes; blocks are whole granules of 64 bytes
/// Order:   none: it touches no memory
/// Source:  mirrors the flexible allocator of CAM's HFA as published; differs in that free_bytes() is always the sum of
///          the free ranges, and that a wrong free() is refused
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

  /// Errors:  invalid_argument: zero bytes, or an alignment that is no power of two from 64 on; fragmented: enough bytes
  ///          are free, but no range of them fits; out_of_memory: not enough are. The heap is unchanged.
  Result<Offset> allocate(Bytes size) { return allocate(size, kGranule); }
  Result<Offset> allocate(Bytes size, Bytes alignment);

  /// Errors:  invalid_argument where no live block starts at this offset; the heap is unchanged
  Result<void> free(Offset offset);

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

  /// A block or a free range; neighbours in memory are linked.
  struct Node {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t free_since = 0;  // 0: live
    Id before = kNone;
    Id next = kNone;
  };

  /// Sorts as best fit searches: by length, then by age.
  struct FreeRange {
    std::uint64_t size = 0;
    std::uint64_t since = 0;
    Id id = kNone;
    auto operator<=>(const FreeRange&) const = default;
  };

  struct Fit {
    Id id = kNone;
    std::uint64_t padding = 0;  // free bytes that stay in front of the block
  };

  [[nodiscard]] Fit best_fit(std::uint64_t size, std::uint64_t alignment) const;
  [[nodiscard]] Error no_fit(Bytes size, Bytes alignment) const;
  Id new_node(std::uint64_t offset, std::uint64_t size);
  Id split(Id id, std::uint64_t size);
  void absorb_next(Id id);
  void insert_free(Id id);
  void remove_free(Id id);
  void record(std::uint64_t operation, Offset offset, Bytes size);

  Bytes capacity_;
  Bytes used_;
  std::uint64_t clock_ = 0;
  std::uint64_t history_ = 0;
  Id first_ = kNone;
  std::vector<Node> nodes_;
  std::vector<Id> spare_;
  std::set<FreeRange> by_size_;
  std::unordered_map<std::uint64_t, Id> live_;  // by offset
};

}  // namespace shmoe::shmem
