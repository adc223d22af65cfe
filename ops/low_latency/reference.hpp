#pragma once
// What the low-latency operators must compute, written down sequentially: the problem as ops/ep/reference knows it, with
// a column for each shared rank and each routed expert in place of the experts.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/ep/reference.hpp"

namespace shmoe::ops::reference {

struct LowLatencyProblem {
  Problem routed;
  std::int32_t shared_experts = 0;
  std::int32_t shared_ranks = 0;                  // the first ones; copies of an expert are neighbours
  std::vector<std::vector<std::uint8_t>> active;  // of each rank [T, K], or none: all pairs are active
};

/// Column c is shared rank c, or routed expert c - shared_ranks; each token has topk + shared_experts pairs, masked ones -1,
/// shared ones with weight 1.
Problem widened(const LowLatencyProblem& problem);

/// [columns, R]: where the rows of a source end.
std::vector<std::int64_t> inclusive_prefix(const Answer& answer);

/// A row as int8. Without a scale each row has its own.
/// Shapes:  x [H] of dtype · factors [H], or none
Quantised quantise(DType dtype, std::span<const std::byte> x, std::span<const float> factors,
                   std::optional<float> static_scale);

/// As combine, with a row of `extra` added to each token at the end.
/// Shapes:  extra [T, H] of dtype, or none · result [T, H] of dtype
std::vector<std::byte> combine_with(const Problem& problem, const Answer& answer, std::int64_t rank, DType dtype,
                                    std::int64_t hidden, const ExpertOutput& output, std::span<const std::byte> extra);

}  // namespace shmoe::ops::reference
