#include "runtime/machine.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include <sched.h>

namespace shmoe::runtime {
namespace {

/// Quota of the cgroup in whole CPUs, rounded up; 0 where there is none.
std::int32_t cgroup_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double cpus = std::strtod(quota.c_str(), nullptr) / period;
  return cpus > 0 ? static_cast<std::int32_t>(cpus + 0.999) : 0;
}

}  // namespace

std::int32_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::int32_t cpus = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  const std::int32_t quota = cgroup_cpus();
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

}  // namespace shmoe::runtime
