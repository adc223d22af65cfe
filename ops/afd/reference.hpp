#pragma once
// What a2e and e2a must come to, computed by one thread from the input of all ranks.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shmem/types.hpp"

namespace shmoe::ops::reference {

/// The batch of an attention rank.
struct AfdBatch {
  std::vector<std::byte> x;               // [B, H]
  std::vector<std::int32_t> expert_ids;   // [B, K]
  std::vector<float> scales;              // [B, K]
  std::vector<std::uint8_t> active_mask;  // [B], or none: every row is active
};

struct AfdProblem {
  std::int64_t experts = 1;  // expert ranks
  std::int64_t hidden = 1;
  std::int64_t topk = 1;
  DType dtype = DType::bf16;
  bool int8 = false;
  bool gate = true;
  std::vector<AfdBatch> attention;  // of each attention rank

  [[nodiscard]] std::int64_t rows(std::size_t attention_rank) const;
};

/// What an expert rank must receive.
struct AfdReceived {
  std::vector<std::int32_t> atten_batch_size;
  std::vector<std::byte> expand_x;
  std::vector<std::uint8_t> x_active_mask;
  std::vector<std::int32_t> expert_ids;
  std::vector<float> expert_scales;
  std::vector<float> row_scales;
};

/// Of each expert rank: the batches of the attention ranks a with a mod E = e, a ascending, one after the other.
std::vector<AfdReceived> received(const AfdProblem& problem);

/// What each attention rank must get back for the answers of each expert rank.
/// Shapes:  answers [rows, H], or with `summed` [rows, K, H]
std::vector<std::vector<std::byte>> returned(const AfdProblem& problem,
                                             const std::vector<std::vector<std::byte>>& answers, bool summed);

}  // namespace shmoe::ops::reference
