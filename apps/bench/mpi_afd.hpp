#pragma once
// The exchange of a2e and e2a with sends and receives of MPI. No header of ours names a type of MPI.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/afd/assignment.hpp"

namespace shmoe::apps {

/// One rank's part.
struct MpiAfdSizes {
  ops::Assignment ranks;
  Rank me;
  std::size_t row_bytes = 0;
  std::size_t topk = 1;
};

/// Batch size, ids, scales and rows of an attention rank to its expert rank.
void mpi_send_batch(const MpiAfdSizes& sizes, std::span<const std::byte> x, std::span<const std::int32_t> ids,
                    std::span<const float> scales);

/// What an expert rank takes, one batch after the other; returns the batch sizes.
std::vector<std::int32_t> mpi_receive_batches(const MpiAfdSizes& sizes, std::span<std::byte> rows,
                                              std::span<std::int32_t> ids, std::span<float> scales);

/// Rows back, one batch after the other.
void mpi_send_sums(const MpiAfdSizes& sizes, std::span<const std::int32_t> batch_sizes,
                   std::span<const std::byte> sums);
void mpi_receive_sums(const MpiAfdSizes& sizes, std::span<std::byte> x);

}  // namespace shmoe::apps
