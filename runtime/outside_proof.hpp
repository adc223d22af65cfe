#pragma once
// A proof on demand, by a process that is no rank of the job.

#include <chrono>
#include <functional>
#include <optional>

#include "runtime/verdict.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// How long a proof may take: every waiting core answers in its next tick.
std::chrono::milliseconds proof_limit(std::int32_t ranks);

/// Asks until it is proven that waits can never end, none of them looks so any more, or the limit has passed. While a rank
/// of the job asks for itself, it is not interrupted.
/// `peers`: of JobView for Use::challenge.
std::optional<Verdict> prove_from_outside(const shmem::Peers& peers, const std::function<bool(Rank member)>& gone,
                                          std::chrono::milliseconds limit);

}  // namespace shmoe::runtime
