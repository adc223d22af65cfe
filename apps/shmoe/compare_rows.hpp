#pragma once
// Where two rows differ, in words.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "shmem/types.hpp"

namespace shmoe::apps {

/// "has 1.5 in column 3, not 2": nothing where the rows are equal to the bit. Any NaN equals any other: weights that
/// overflow give one, and no format promises its sign and payload.
/// Shapes:  found, expected [H] of dtype
std::optional<std::string> row_difference(DType dtype, std::span<const std::byte> found,
                                          std::span<const std::byte> expected);

}  // namespace shmoe::apps
