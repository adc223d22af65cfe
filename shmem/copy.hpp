#pragma once
// Moving token rows and adding them up.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "shmem/types.hpp"

namespace shmoe::shmem {

/// Ways to copy. Where the CPU lacks one it is the same as `cached`.
enum class CopyKind : std::uint8_t {
  cached,     // through the cache, where the next reader finds it
  streaming,  // past the cache: the line need not be read first, and nothing else is driven out
  movsb,      // as the CPU's own copy instruction does it
};

inline constexpr std::array kCopyKinds{CopyKind::cached, CopyKind::streaming, CopyKind::movsb};

std::string_view name_of(CopyKind kind);
std::optional<CopyKind> find_copy_kind(std::string_view name);

/// Copies one row of any length, at any address.
///
/// Order:   visible to others by the caller's next signal, fence or quiet; plain stores only where `cached`
/// Errors:  broken contract where the lengths differ
void copy_row(std::span<std::byte> to, std::span<const std::byte> from, CopyKind kind);

/// out[j] = round(sum of fp32(rows[k][j]) * weights[k] over k), to the bit: it starts from +0, k ascends, each step is
/// one fp32 multiplication and one fp32 addition, and the last rounding is to nearest even. No rows give zeros.
///
/// Shapes:  rows K x [H] of `type` · weights [K] · out [H] of `type`; any K, any H, any address; out overlaps no row
/// Errors:  broken contract where K or a row length differs, or a length is no whole number of elements
void weighted_row_sum(DType type, std::span<const std::span<const std::byte>> rows, std::span<const float> weights,
                      std::span<std::byte> out);

}  // namespace shmoe::shmem
