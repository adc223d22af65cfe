#pragma once
// Rows in runs that are active or are not.

#include <cstdint>
#include <span>

#include "shmem/types.hpp"

namespace shmoe::ops {

/// Calls act(Slice, active) for each longest run of rows of `rows` that are alike, ascending.
/// Shapes:  mask [n], or none: every row is active
template <class Act>
void each_run(std::span<const std::uint8_t> mask, Slice rows, const Act& act) {
  const auto active = [&](std::int64_t row) { return mask.empty() || mask[static_cast<std::size_t>(row)] != 0; };
  while (rows.size() > 0) {
    const bool first = active(rows.first);
    std::int64_t end = mask.empty() ? rows.last : rows.first + 1;
    while (end < rows.last && active(end) == first) ++end;
    act(Slice{rows.first, end}, first);
    rows.first = end;
  }
}

}  // namespace shmoe::ops
