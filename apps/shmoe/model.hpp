#pragma once
// The model around the communication: what attention makes of a batch, and the experts of the rows that have come.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/shmoe/batch.hpp"
#include "ops/ep/quant.hpp"
#include "runtime/executor.hpp"

namespace shmoe::apps {

/// What stays the same over the steps.
struct MoeShape {
  DType dtype = DType::bf16;
  std::int64_t hidden = 2048;
  std::uint64_t seed = 1;
  ops::Quant quant = ops::Quant::none;  // of dispatch
};

/// The tokens of a rank's batch in step `number`, [T, H] of dtype.
std::vector<std::byte> attend(const MoeShape& shape, const Batch& batch, Rank rank, std::int64_t number);

/// Rows as they were sent, those of one expert behind those of another.
struct ExpertRows {
  std::span<const Expert> experts;
  std::span<const std::int64_t> counts;  // of each expert
  std::span<const std::byte> rows;
  std::span<const float> scales;  // of int8 rows
};

/// The answers to all rows. No kernel: the cores are idle meanwhile.
/// Shapes:  answers [rows, H] of dtype
void run_experts(runtime::Executor& executor, const MoeShape& shape, const ExpertRows& received,
                 std::span<std::byte> answers);

/// A row as experts compute with it: the one that was sent, or what `room` then holds.
/// Shapes:  sent [H] of dtype, or of int8 with its scale
std::span<const std::byte> opened(const MoeShape& shape, std::span<const std::byte> sent, float scale,
                                  std::vector<std::byte>& room);

}  // namespace shmoe::apps
