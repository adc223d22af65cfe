#include "apps/bench/pinning.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>
#include <sched.h>

#include "apps/shmoe/collective.hpp"

namespace shmoe::apps {
namespace {

constexpr std::size_t kMostRanks = 16;

/// Plain: the first words of the set, which is all of it on machines of up to 1024 CPUs.
struct CpuSet {
  cpu_set_t cpus{};
};

std::string text_of(const CpuSet& set) {
  std::vector<std::string> runs;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set.cpus)) continue;
    std::size_t last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set.cpus)) ++last;
    runs.push_back(last == cpu ? fmt::to_string(cpu) : fmt::format("{}-{}", cpu, last));
    cpu = last;
  }
  return fmt::format("{} {}", CPU_COUNT(&set.cpus) == 1 ? "CPU" : "CPUs", fmt::join(runs, ","));
}

}  // namespace

Result<std::string> pinning_of(runtime::Communicator& comm) {
  auto place = comm.allocate(Bytes{sizeof(CpuSet)});
  if (!place) return std::move(place).error();
  CpuSet mine;
  static_cast<void>(::sched_getaffinity(0, sizeof mine.cpus, &mine.cpus));  // stays empty where it fails
  const auto sets = gather(comm, *place, mine);
  if (!sets) return sets.error();
  const auto alike = [&](const CpuSet& set) { return CPU_EQUAL(&set.cpus, &sets->front().cpus) != 0; };
  if (std::ranges::all_of(*sets, alike)) return fmt::format("pinning: every rank on {}", text_of(sets->front()));
  if (sets->size() > kMostRanks) return fmt::format("pinning: {} ranks on different CPUs", sets->size());
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sets->size(); ++rank) {
    texts.push_back(fmt::format("rank {} on {}", rank, text_of((*sets)[rank])));
  }
  return fmt::format("pinning: {}", fmt::join(texts, ", "));
}

}  // namespace shmoe::apps
