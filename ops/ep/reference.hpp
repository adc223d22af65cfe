#pragma once
// What the operators must compute, written down sequentially. It shares no code with them: own loops, own rounding.
//
//   all pairs of all ranks, sorted by (owner, expert, source rank, token, k)
//        place in the owner's list          = the row
//        first place of an (expert, source) = put_offset
//        row - put_offset                   = send_token_idx

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shmem/types.hpp"

namespace shmoe::ops::reference {

/// One rank's routing; ids are -1 or in [0, E).
struct Input {
  std::int64_t tokens = 0;
  std::vector<std::int64_t> topk_idx;  // [T, K]
  std::vector<float> weights;          // [T, K], or none: every weight is 1
};

struct Problem {
  std::int32_t experts = 0;
  std::int32_t topk = 0;
  std::vector<std::int32_t> owner;  // [E] rank
  std::vector<Input> ranks;
  std::int64_t alignment = 1;  // of the first row of each expert
};

/// Where a row comes from. The rows that fill up an expert's group come from nowhere: only `expert` means something.
struct Origin {
  std::int64_t expert = 0;
  std::int64_t source = 0;
  std::int64_t token = 0;
  std::int64_t k = 0;
  bool operator==(const Origin&) const = default;
  [[nodiscard]] bool padding() const { return token < 0; }
};

struct Answer {
  // One entry a rank.
  std::vector<std::vector<std::int32_t>> num_tokens_per_expert, num_tokens_per_rank, is_token_in_rank, send_token_idx;
  std::vector<std::vector<std::int64_t>> recv_tokens_per_expert, group_counts;  // without and with padding
  std::vector<std::vector<Origin>> rows;                                        // of the buffer, in order
  std::vector<std::vector<std::int64_t>> row_of;                                // [T, K]: row on the owner; -1: dropped
  // The same on every rank.
  std::vector<std::int32_t> recv_data;
  std::vector<std::int64_t> put_offset;
  std::int64_t total_recv_tokens = 0;
  std::int64_t max_bs = 0;
};

Answer solve(const Problem& problem);
/// Without recv_data, max_bs and the tables of layout, which grow with tokens x ranks of every rank.
Answer solve_places(const Problem& problem);

/// The bytes of row `row` of a rank's expert output.
using ExpertOutput = std::function<std::span<const std::byte>(std::int64_t rank, std::int64_t row)>;

/// One element of each pair of a rank, in the order of the pairs; 0 for a dropped one.
/// Shapes:  elements [1] of `element_size` bytes a row · result [T, K]
std::vector<std::byte> gather(const Problem& problem, const Answer& answer, std::int64_t rank, std::size_t element_size,
                              const ExpertOutput& elements);

/// The combined tokens of one rank, to the bit.
/// Shapes:  output [H] of dtype a row · result [T, H] of dtype
std::vector<std::byte> combine(const Problem& problem, const Answer& answer, std::int64_t rank, DType dtype,
                               std::int64_t hidden, const ExpertOutput& output);

/// A row as int8. The scale is not finite where x is not: then q is all zeros.
struct Quantised {
  std::vector<std::int8_t> q;  // [H]
  float scale = 0;
};
/// Shapes:  x [H] of dtype
Quantised quantise(DType dtype, std::span<const std::byte> x);

/// One element as fp32.
/// Shapes:  row [H] of dtype · index below H
float load(DType dtype, std::span<const std::byte> row, std::int64_t index);
/// Rounds to nearest even and stores.
/// Shapes:  as load
void store(DType dtype, std::span<std::byte> row, std::int64_t index, float value);

}  // namespace shmoe::ops::reference
