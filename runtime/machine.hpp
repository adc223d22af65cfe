#pragma once
// How many CPUs and open files this process may use.

#include <cstdint>
#include <optional>
#include <vector>

#include "shmem/result.hpp"

namespace shmoe::runtime {

/// Ascending; empty where the kernel does not say.
std::vector<int> allowed_cpus();
/// At least 1.
std::int32_t cpus_by_affinity();

/// The tightest quota on the way from our cgroup to the root; nothing where there is none.
std::optional<double> cpus_by_quota();

/// What the quota leaves of so many CPUs, a part of a CPU counted as one; at least 1.
std::int32_t within_quota(std::int32_t cpus);

/// Raises the soft limit of open files where it is below what a job of so many ranks needs here.
/// Errors:  system where the hard limit is below
Result<void> allow_open_files(std::int32_t ranks, std::int32_t needed);

}  // namespace shmoe::runtime
