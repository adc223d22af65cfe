#pragma once
// Token rows as int8 with one scale, and back.
//
//   x    1.0  -2.5  3.0  0.5        a = largest |x| = 3.0,  mult = 127 / (a + 1e-12)
//   q     42  -106  127   21        round(x * mult);  scale = 1 / mult = 0.0236:  q * scale is about x

#include <cstddef>
#include <span>

#include "shmem/types.hpp"

namespace shmoe::shmem {

/// Writes q[j] = x[j] * mult, rounded to the nearest integer, ties to even, and returns scale = 1 / mult; every operation
/// is a single fp32 one. A row of zeros gives zeros and the scale of mult = 127 / 1e-12. A row with an infinity or a NaN
/// gives zeros and an infinite scale or a NaN: each of its columns is a NaN again after dequantise_row, and none is lost.
///
/// Shapes:  x [H] of `type` · q [H] int8; any H, any address
/// Errors:  broken contract where the lengths differ
/// Source:  dynamic quantisation of the published dispatch; NaN and infinity, which it leaves open, are ours
[[nodiscard]] float quantise_row(DType type, std::span<const std::byte> x, std::span<std::byte> q);

/// y[j] = q[j] * scale in fp32, rounded to nearest even.
///
/// Shapes:  q [H] int8 · y [H] of `type`; any H, any address
/// Errors:  broken contract where the lengths differ
void dequantise_row(DType type, std::span<const std::byte> q, float scale, std::span<std::byte> y);

}  // namespace shmoe::shmem
