#pragma once
// Who will never go on, as far as the declared writers of slots decide it.

#include <span>
#include <vector>

#include "runtime/diagnosis/sight.hpp"

namespace shmoe::runtime {

/// By world rank: whether it is stuck. The greatest set of ranks of which each has a waiting core, none that runs, in
/// whichever of the communicators, and every wait of which only ranks of the set, or ended ones, could end. A wait that may
/// give up, or that holds at this moment, or that is open-ended, ends.
///
///   all   stuck at the slot it lacks, when everybody who may write that slot is stuck or has ended
///   any   stuck when that is so of all its slots; a sum likewise
///
/// `ended`: by world rank, whether its process is gone.
std::vector<bool> stuck_set(std::span<const Sight> sights, const std::vector<bool>& ended);

}  // namespace shmoe::runtime
