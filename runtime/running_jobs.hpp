#pragma once
// The jobs of this user that run now. The names of their segments are gone as soon as all ranks have mapped them, so they
// are found by the descriptors that their owners keep:
//
//   /proc/4711/fd/9 -> /dev/shm/shmoe.run_4709.0c1f22aa.0.ctl (deleted)

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

/// A rank's process, and the descriptors of its objects there.
struct RankProcess {
  Rank rank;
  std::int64_t pid = 0;
  int control = -1;
  int memory = -1;

  /// A path under which one of the two can be opened.
  [[nodiscard]] std::string path_of(int descriptor) const { return fmt::format("/proc/{}/fd/{}", pid, descriptor); }
};

struct RunningJob {
  std::string name;  // as in the names of the segments
  std::uint64_t tag = 0;
  std::int32_t ranks = 0;
  std::int64_t begun_ns = 0;           // steady clock
  std::vector<RankProcess> processes;  // by rank; fewer than `ranks` while it starts or ends

  [[nodiscard]] bool has(std::int64_t pid) const;
  [[nodiscard]] double age_s() const;
  /// "run_4709 (4 ranks, pids 4711-4714, for 12 s)"
  [[nodiscard]] std::string description() const;
};

/// Those of ranks that are threads are none. By name, then by age.
std::vector<RunningJob> running_jobs();

/// `wanted`: the name of a job, or the pid of one of its ranks; empty: the only one.
/// Errors:  not_found, with what there is; permission for the pid of another user; invalid_argument where several fit.
Result<RunningJob> choose_job(std::vector<RunningJob> jobs, std::string_view wanted);

}  // namespace shmoe::runtime
