#pragma once
// Which copy a put uses. The rows that a core puts are read soon, by somebody else: what fits in the cache until then
// goes through it, the rest past it.

#include <cstddef>
#include <cstdint>
#include <limits>

#include "shmem/copy.hpp"

namespace shmoe::shmem {

struct CopyPlan {
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

  CopyKind kind = CopyKind::cached;
  /// Shorter rows are always `cached`: streaming pays for whole cache lines only.
  std::size_t long_row = 1024;
  /// Of one core between two phases of its work; what it puts beyond them streams.
  std::uint64_t near_bytes = kNoEnd;

  /// `before`: bytes that this core has put in this phase. A row is to fit beside its source.
  [[nodiscard]] constexpr CopyKind choose(std::size_t row, std::uint64_t before) const {
    if (row < long_row) return CopyKind::cached;
    const bool fits = near_bytes == kNoEnd || (before < near_bytes && row <= (near_bytes - before) / 2);
    return fits ? kind : CopyKind::streaming;
  }
};

}  // namespace shmoe::shmem
