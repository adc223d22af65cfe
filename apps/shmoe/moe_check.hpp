#pragma once
// Compares a step with the sequential reference, to the bit.

#include <optional>
#include <span>
#include <vector>

#include "apps/shmoe/low_latency_step.hpp"
#include "apps/shmoe/moe_step.hpp"
#include "ops/ep/expert_map.hpp"
#include "ops/ep/reference.hpp"

namespace shmoe::apps {

/// The batches of all ranks in one step, as the reference takes them.
ops::reference::Problem problem_of(const std::vector<Batch>& batches, const ops::ExpertMap& experts);

/// What stands in the receive buffers.
struct Received {
  std::span<const std::byte> rows;
  std::span<const float> scales;  // of int8 rows
};

/// What is wrong with this rank's part of the step: tables, each received row, each combined token. Nothing if all is
/// as it must be.
std::optional<Error> wrong_result(const MoeStep& step, const MoeShape& shape, const ops::reference::Problem& problem,
                                  const Received& received);
std::optional<Error> wrong_result(const LowLatencyStep& step, const MoeShape& shape,
                                  const ops::reference::Problem& problem);

}  // namespace shmoe::apps
