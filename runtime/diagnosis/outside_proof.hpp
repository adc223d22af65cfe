#pragma once
// A proof on demand, by a process that is no rank of the job.

#include <chrono>
#include <optional>

#include "runtime/diagnosis/prover.hpp"

namespace shmoe::runtime {

/// How long a proof may take: every waiting core answers in its next tick.
std::chrono::milliseconds proof_limit(std::int32_t ranks);

/// Asks until it is proven that waits can never end, none of them looks so any more, or the limit has passed. While a rank
/// of the job asks for itself, it is not interrupted.
/// `parts`: with the views of a JobView for Use::challenge; its `self` is kOutside.
std::optional<Proof> prove_from_outside(Prover::Parts parts, std::chrono::milliseconds limit);

}  // namespace shmoe::runtime
