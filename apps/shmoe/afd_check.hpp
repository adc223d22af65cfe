#pragma once
// Compares a step of a2e and e2a with the sequential reference, to the bit.

#include <optional>
#include <vector>

#include "apps/shmoe/afd_step.hpp"
#include "ops/afd/assignment.hpp"

namespace shmoe::apps {

/// What is wrong with this rank's part of the step: of an expert rank each received row, id and scale; of an attention rank
/// each row that came back. Nothing if all is as it must be.
/// `batches`: of each attention rank.
std::optional<Error> wrong_result(const AfdStep& step, const MoeShape& shape, const ops::Assignment& ranks,
                                  const std::vector<Batch>& batches);

}  // namespace shmoe::apps
