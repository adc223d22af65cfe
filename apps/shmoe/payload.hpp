#pragma once
// What tokens hold and what experts do in the main job: known to everyone, so that everyone can check every byte.

#include <cstddef>
#include <cstdint>
#include <span>

#include "shmem/types.hpp"

namespace shmoe::apps {

/// Which token of the job.
struct TokenKey {
  std::uint64_t seed = 1;
  std::int64_t step = 0;
  Rank rank;
  std::int64_t token = 0;
};

/// A number of sixty-fourths in [-2, 2) in each column, exact in every dtype.
/// Shapes:  row [H] of dtype, aligned to an element
void fill_token(const TokenKey& key, DType dtype, std::span<std::byte> row);

/// y[j] = x[(j + e) mod H] * (1 + (e mod 16) / 16) in fp32, rounded to nearest even.
/// Shapes:  x, y [H] of dtype, aligned to an element
void run_expert(Expert expert, DType dtype, std::span<const std::byte> x, std::span<std::byte> y);

}  // namespace shmoe::apps
