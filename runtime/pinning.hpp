#pragma once
// A CPU for each core of the job, by hwloc's order.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config.hpp"
#include "runtime/grid.hpp"
#include "runtime/log.hpp"

namespace shmoe::runtime {

/// CPUs that affinity and cgroup allow this process, by the numbers of the kernel: one of each physical core first,
/// neighbours beside each other, then the siblings. Loads the topology: some milliseconds.
/// Errors:  system where there is no topology.
Result<std::vector<int>> cpus_in_order();

/// Core c of rank r gets CPU r x C + c of the order, where config.pin asks for it. Where there are more cores than CPUs
/// nothing is pinned, and rank 0 says so.
void pin_cores(Grid& grid, const Config& config, Rank rank, std::int32_t ranks, const Log& log);

}  // namespace shmoe::runtime
