#pragma once
// Who will never go on, as far as the declared writers of slots decide it.

#include <vector>

#include "runtime/sight.hpp"

namespace shmoe::runtime {

/// By rank: whether it is stuck. The greatest set of ranks of which each has a waiting core, none that runs, and every wait
/// of which only ranks of the set, or ended ones, could end. A wait that may give up, or that holds at this moment, ends.
///
///   all   stuck at the slot it lacks, when everybody who may write that slot is stuck or has ended
///   any   stuck when that is so of all its slots; a sum likewise
///
/// `ended`: by rank, whether its process is gone.
std::vector<bool> stuck_set(const Sight& sight, const std::vector<bool>& ended);

}  // namespace shmoe::runtime
