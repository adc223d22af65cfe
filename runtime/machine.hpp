#pragma once
// How many CPUs this process may use.

#include <cstdint>
#include <optional>

namespace shmoe::runtime {

/// At least 1.
std::int32_t cpus_by_affinity();

/// The tightest quota on the way from our cgroup to the root; nothing where there is none.
std::optional<double> cpus_by_quota();

/// CPUs that affinity and quota allow, a part of a CPU counted as one; at least 1.
std::int32_t usable_cpus();

}  // namespace shmoe::runtime
