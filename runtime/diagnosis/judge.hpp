#pragma once
// Why nobody can go on, in the same words for the checker and for live jobs.

#include "runtime/diagnosis/sight.hpp"
#include "runtime/diagnosis/verdict.hpp"

namespace shmoe::runtime {

/// Of waits that cannot end: every core that waits in `sight` is stuck for ever.
Verdict judge(const Sight& sight);
/// Of the same the waits alone, with world ranks in place of members.
std::vector<StuckWait> stuck_waits(const Sight& sight);

}  // namespace shmoe::runtime
