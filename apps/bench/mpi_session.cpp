#include "apps/bench/mpi_session.hpp"

#include <mpi.h>

namespace shmoe::apps {

bool starts_mpi(std::string_view launcher) { return launcher == "openmpi" || launcher == "pmix"; }

MpiSession::MpiSession() { MPI_Init(nullptr, nullptr); }

std::string MpiSession::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find(','));
}

void MpiSession::finish() { MPI_Finalize(); }

void mpi_barriers(std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace shmoe::apps
