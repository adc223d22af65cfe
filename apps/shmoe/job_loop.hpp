#pragma once
// What every mode of the main job does around its own step: batches, verification, figures, the next step.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/moe_job.hpp"

namespace shmoe::apps {

/// Of ranks [0, ranks) in one step.
std::vector<Batch> batches_of(const RoutingSource& source, std::int64_t number, std::int32_t ranks);
/// Of the largest batch.
std::int64_t most_tokens(const std::vector<Batch>& batches);

/// What this rank's part of a step came to.
struct CheckedStep {
  std::optional<Error> wrong;  // nothing where all is as the reference has it
  StepFigures figures;
};
using RunStep = std::function<Result<CheckedStep>(std::int64_t number)>;

/// All steps of a plan, and what every rank has recorded of them. `stages`: of a step. `record`: symmetric, a RankRecord.
///
/// Order:   collective; a barrier behind each step
/// Errors:  those of a step; on every rank the same, mismatch where any rank found its part wrong
Result<std::vector<RankRecord>> run_steps(runtime::Communicator& comm, const MoePlan& plan, std::size_t stages,
                                          Offset record, const RunStep& step);

/// Whether every rank has what it needs before the first step.
///
/// Order:   as agree
/// Errors:  as agree
template <class Prepared>
Result<void> all_prepared(runtime::Communicator& comm, const Result<Prepared>& prepared) {
  return agree(comm, "preparation", prepared ? std::nullopt : std::optional{prepared.error()});
}

}  // namespace shmoe::apps
