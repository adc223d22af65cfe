#pragma once
// Where a result is not the expected one, in words.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shmem/result.hpp"

namespace shmoe::apps {

/// "has 1.5 in column 3, not 2": nothing where the rows are equal to the bit. Any NaN equals any other: weights that
/// overflow give one, and no format promises its sign and payload.
/// Shapes:  found, expected [H] of dtype
std::optional<std::string> row_difference(DType dtype, std::span<const std::byte> found,
                                          std::span<const std::byte> expected);

/// mismatch: "wrong result on rank 1 in step 2: received row 3 ...", and what to do about it.
Error wrong_result_of(Rank rank, std::int64_t step, std::string_view what);

}  // namespace shmoe::apps
