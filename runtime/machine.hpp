#pragma once
// What this process may use of the machine.

#include <cstdint>

namespace shmoe::runtime {

/// CPUs that affinity and the cgroup's quota allow; at least 1.
std::int32_t usable_cpus();

}  // namespace shmoe::runtime
