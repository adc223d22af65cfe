#pragma once
// What started this process, and which rank of how many it is.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::bootstrap {

/// Looks an environment variable up; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view)>;

/// The environment of this process.
Environment process_environment();

/// More ranks than this are taken for a wrong value.
inline constexpr std::int32_t kMaxSize = 4096;

struct Launch {
  std::string launcher;  // "explicit", "shmoe", "openmpi", "pmix", "slurm" or "none"; or what SHMOE_LAUNCHER says
  Rank rank;
  std::int32_t size = 1;
  std::string job_id;                 // the same on every rank of the job
  std::optional<std::string> secret;  // SHMOE_SECRET as given; never logged
  std::string found_by;               // the variables that said so

  /// One line for the log: "rank 2 of 8 of job 17, started by openmpi (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)".
  [[nodiscard]] std::string description() const;
};

/// By these the ranks of other launchers are recognised. `shmoe run` takes them away from its own ranks.
inline constexpr std::array kOtherLaunchers{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "SLURM_PROCID",
                                            "PMI_RANK"};

/// Explicit variables first (SHMOE_RANK, SHMOE_SIZE), then Open MPI, PMIx, a Slurm step, Hydra, else a job of one rank.
/// SHMOE_JOB names the job whoever started it. SHMOE_SIZE without SHMOE_RANK gives PMIx the size it does not tell, and
/// must agree with the size of any other launcher.
///
/// Errors:  invalid_argument names the variable and its value, or both launchers where one runs inside `shmoe run`
Result<Launch> detect_launch(const Environment& environment);

}  // namespace shmoe::bootstrap
