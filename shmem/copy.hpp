#pragma once
// Moving token rows and adding them up.

#include <cstddef>
#include <span>

#include "shmem/types.hpp"

namespace shmoe::shmem {

/// Copies one row of any length, at any address.
///
/// Order:   plain stores, visible to others by the caller's next signal or fence
/// Errors:  broken contract where the lengths differ
void copy_row(std::span<std::byte> to, std::span<const std::byte> from);

/// out[j] = round(sum of fp32(rows[k][j]) * weights[k] over k), to the bit: it starts from +0, k ascends, each step is
/// one fp32 multiplication and one fp32 addition, and the last rounding is to nearest even. No rows give zeros.
///
/// Shapes:  rows K x [H] of `type` · weights [K] · out [H] of `type`; any K, any H, any address; out overlaps no row
/// Errors:  broken contract where K or a row length differs, or a length is no whole number of elements
void weighted_row_sum(DType type, std::span<const std::span<const std::byte>> rows, std::span<const float> weights,
                      std::span<std::byte> out);

}  // namespace shmoe::shmem
