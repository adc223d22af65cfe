#include "apps/bench/mpi_collectives.hpp"

#include <mpi.h>

namespace shmoe::apps {

void mpi_all_to_all(std::span<const std::byte> x, std::span<std::byte> y) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int chunk = static_cast<int>(x.size()) / ranks;
  MPI_Alltoall(x.data(), chunk, MPI_BYTE, y.data(), chunk, MPI_BYTE, MPI_COMM_WORLD);
}

void mpi_reduce_scatter(std::span<const float> x, std::span<float> y) {
  MPI_Reduce_scatter_block(x.data(), y.data(), static_cast<int>(y.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

}  // namespace shmoe::apps
