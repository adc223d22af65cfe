#include "runtime/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <string>

#include <sched.h>
#include <sys/resource.h>

namespace shmoe::runtime {

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::int32_t cpus_by_affinity() { return std::max(1, static_cast<std::int32_t>(allowed_cpus().size())); }

std::optional<double> cpus_by_quota() {
  std::string group;
  std::ifstream groups{"/proc/self/cgroup"};
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) group = line.substr(3);
  }
  std::optional<double> tightest;
  for (;; group.resize(group.rfind('/'))) {
    if (group == "/") group.clear();
    std::ifstream in{"/sys/fs/cgroup" + group + "/cpu.max"};
    std::string quota;
    double period = 0;
    if (in >> quota >> period && quota != "max" && period > 0) {
      const double cpus = std::strtod(quota.c_str(), nullptr) / period;
      if (!tightest || cpus < *tightest) tightest = cpus;
    }
    if (group.find('/') == std::string::npos) return tightest;
  }
}

std::int32_t within_quota(std::int32_t cpus) {
  const std::optional<double> quota = cpus_by_quota();
  return quota ? std::clamp(static_cast<std::int32_t>(std::ceil(*quota)), 1, cpus) : cpus;
}

Result<void> allow_open_files(std::int32_t ranks, std::int32_t needed) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto least = static_cast<rlim_t>(needed);
  if (limit.rlim_cur >= least) return {};
  if (limit.rlim_max < least) {
    return Error{.code = Errc::system,
                 .context = fmt::format("{} {} {} open files, but the hard limit is {}: raise it with `ulimit -n`{}",
                                        ranks, ranks == 1 ? "rank needs" : "ranks need", needed, limit.rlim_max,
                                        ranks == 1 ? "" : " or start fewer ranks")};
  }
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  return Error{.code = Errc::system,
               .context = fmt::format("cannot have {} open files: raise the limit with `ulimit -n`", needed),
               .where = {},
               .sys = errno};
}

}  // namespace shmoe::runtime
