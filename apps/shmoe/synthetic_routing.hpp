#pragma once
// Routing drawn from measured load, where no recording is at hand.

#include <cstdint>

#include "apps/shmoe/batch.hpp"
#include "shmem/types.hpp"

namespace shmoe::apps {

struct SyntheticWorld {
  std::int64_t tokens = 128;  // of a rank and step
  std::int32_t topk = 8;
  std::int32_t experts = 64;
  std::uint64_t seed = 1;
};

/// How often an expert is chosen, in relation to the others; at least 1. Experts beyond the measured 64 repeat them.
std::uint32_t load_share(Expert expert);

/// K different experts a token, by their shares; weights sum to 1. Integers only decide, so every platform draws alike.
/// Errors:  broken contract where topk is not 1 to experts
Batch draw_batch(const SyntheticWorld& world, std::int64_t step, Rank rank);

}  // namespace shmoe::apps
