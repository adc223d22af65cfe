#pragma once
// Adding up, or taking the largest or smallest of, the same elements of several ranks.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/detour/shards.hpp"

namespace shmoe::ops {

enum class Reduction : std::uint8_t { sum, max, min };

constexpr const char* name_of(Reduction reduction) {
  constexpr const char* kNames[] = {"sum", "max", "min"};
  return kNames[static_cast<std::size_t>(reduction)];
}

/// out[e] = rows[0][e] op rows[1][e] op ..., from the left. fp16 and bf16 are reduced in fp32 and rounded once, to nearest
/// even; a sum of int32 wraps. max and min keep the left one of two equal elements, and of a NaN and anything else.
///
/// Shapes:  at least one row; rows and out of the same length, whole elements, any address; out overlaps no row
/// Errors:  broken contract where they are not
/// Source:  the accumulator of the published reduce-scatter, which lies in memory; a result beyond fp16 is infinite here
void reduce_rows(Element type, Reduction reduction, std::span<const std::span<const std::byte>> rows,
                 std::span<std::byte> out);

}  // namespace shmoe::ops
