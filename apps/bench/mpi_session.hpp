#pragma once
// MPI in this process, where an MPI launcher has started it. No header of ours names a type of MPI.

#include <cstdint>
#include <string>
#include <string_view>

namespace shmoe::apps {

/// Whether ranks started by such a launcher (bootstrap::Launch::launcher) may call MPI_Init.
bool starts_mpi(std::string_view launcher);

/// Between MPI_Init and MPI_Finalize. Errors of MPI end the job, as MPI does by itself.
class MpiSession {
 public:
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// "Open MPI v4.1.4"
  [[nodiscard]] static std::string library();

  /// Collective, so only a rank that has not failed calls it: the others may never come.
  void finish();
};

/// MPI_Barrier so many times.
void mpi_barriers(std::int64_t rounds);

}  // namespace shmoe::apps
