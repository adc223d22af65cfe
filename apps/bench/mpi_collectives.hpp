#pragma once
// What MPI has for the collectives of `shmoe bench collectives`. No header of ours names a type of MPI.

#include <cstddef>
#include <cstdint>
#include <span>

namespace shmoe::apps {

/// MPI_Alltoall of equal chunks.
void mpi_all_to_all(std::span<const std::byte> x, std::span<std::byte> y);

/// MPI_Reduce_scatter_block of sums.
void mpi_reduce_scatter(std::span<const float> x, std::span<float> y);

}  // namespace shmoe::apps
