#pragma once
// The sequential answers of the detour collectives, for comparison to the bit.

#include <cstddef>
#include <span>
#include <vector>

#include "ops/detour/reduce.hpp"
#include "ops/detour/shards.hpp"

namespace shmoe::ops {

/// What each position ends with, from the inputs of all positions.
/// Shapes:  x [C][L] of the type · result [C][C * own chunk]
std::vector<std::vector<std::byte>> all_to_all_reference(Element type, std::span<const std::vector<std::byte>> x);

/// The same of a reduce-scatter: element by element, from the own one around.
/// Shapes:  x [C][L] of the type · result [C][own chunk]
std::vector<std::vector<std::byte>> reduce_scatter_reference(Element type, Reduction reduction,
                                                             std::span<const std::vector<std::byte>> x);

}  // namespace shmoe::ops
