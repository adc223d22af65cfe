#pragma once
// What the tests of the heap share: calls that have to succeed, and what a heap looks like from outside.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "shmem/heap.hpp"
#include "shmem/layout.hpp"

namespace shmoe::shmem::test {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // {offset, size}

inline std::uint64_t take(Heap& heap, std::uint64_t size, std::uint64_t alignment = 64,
                          Mobility mobility = Mobility::pinned) {
  const auto offset = heap.allocate(Bytes{size}, Bytes{alignment}, mobility);
  REQUIRE_MESSAGE(offset.has_value(), to_string(offset.error()));
  return offset->value();
}

inline void release(Heap& heap, std::uint64_t offset) { REQUIRE(heap.free(Offset{offset}).has_value()); }

inline Errc refusal(const Result<Offset>& result) { return result ? Errc::ok : result.error().code; }

inline Ranges ranges_of(const Heap& heap, bool live) {
  Ranges found;
  heap.for_each_block([&](const Heap::Block& block) {
    if (block.live == live) found.emplace_back(block.offset.value(), block.size.value());
  });
  return found;
}

inline Ranges free_ranges(const Heap& heap) { return ranges_of(heap, false); }

/// Blocks tile the heap, no two free ranges touch, and all counters are what the blocks add up to.
inline bool consistent(const Heap& heap, std::uint64_t begin) {
  std::uint64_t end = begin;
  std::uint64_t free = 0;
  std::uint64_t used = 0;
  std::uint64_t largest = 0;
  bool ok = true;
  bool after_free = false;
  heap.for_each_block([&](const Heap::Block& block) {
    const std::uint64_t size = block.size.value();
    ok = ok && block.offset.value() == end && size > 0 && size % 64 == 0 && (block.live || !after_free);
    end += size;
    after_free = !block.live;
    (block.live ? used : free) += size;
    if (!block.live) largest = std::max(largest, size);
  });
  return ok && end == begin + heap.capacity().value() && heap.free_bytes() == Bytes{free} &&
         heap.used() == Bytes{used} && heap.largest_free() == Bytes{largest};
}

}  // namespace shmoe::shmem::test
