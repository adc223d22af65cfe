#include "runtime/pinning.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <hwloc.h>
#include <sched.h>

namespace shmoe::runtime {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

/// Cores and CPUs only: neither devices nor caches are asked for.
Topology load_topology() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return nullptr;
  Topology topology(made);
  hwloc_topology_set_all_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(made, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(made) != 0) return nullptr;
  return topology;
}

struct Cpu {
  int number;   // the kernel's
  int sibling;  // how many CPUs of its physical core come before it
};

int sibling_index(hwloc_topology_t topology, hwloc_obj_t cpu) {
  const hwloc_obj* core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, cpu);
  if (core == nullptr) return 0;
  int before = 0;
  for (hwloc_obj_t other = cpu->prev_cousin; other != nullptr; other = other->prev_cousin) {
    if (hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, other) != core) break;
    ++before;
  }
  return before;
}

bool pin_this_thread(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

}  // namespace

Result<std::vector<int>> cpus_in_order() {
  const Topology topology = load_topology();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (!topology || sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return Error{.code = Errc::system,
                 .context = "cannot read the topology of this machine: mount /sys, or leave SHMOE_PIN out",
                 .where = {},
                 .sys = errno};
  }
  std::vector<Cpu> cpus;
  hwloc_obj_t cpu = nullptr;
  while ((cpu = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PU, cpu)) != nullptr) {
    const bool usable = cpu->os_index < CPU_SETSIZE && CPU_ISSET(cpu->os_index, &allowed);
    if (usable) cpus.push_back({static_cast<int>(cpu->os_index), sibling_index(topology.get(), cpu)});
  }
  std::ranges::stable_sort(cpus, {}, &Cpu::sibling);
  std::vector<int> numbers;
  for (const Cpu& each : cpus) numbers.push_back(each.number);
  return numbers;
}

void pin_cores(Grid& grid, const Config& config, Rank rank, std::int32_t ranks, const Log& log) {
  if (config.pin != Pin::cores) return;
  const auto tell = [&](const std::string& why) {
    if (rank == Rank{0}) log.warn("nothing is pinned: {}", why);
  };
  const Result<std::vector<int>> cpus = cpus_in_order();
  if (!cpus) return tell(to_string(cpus.error()));
  const auto cores = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(config.cores);
  if (cores > cpus->size()) {
    return tell(
        fmt::format("{} ranks of {} cores, but {} CPUs by affinity; a launcher that has bound its ranks must be "
                    "told not to",
                    ranks, config.cores, cpus->size()));
  }
  const std::size_t first = rank.index() * static_cast<std::size_t>(config.cores);
  // A CPU taken away since then leaves its core where the others are: slower, not wrong.
  grid.run([&](Core core) { (void)pin_this_thread((*cpus)[first + core.index()]); });
}

}  // namespace shmoe::runtime
