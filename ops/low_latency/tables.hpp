#pragma once
// What a low-latency dispatch leaves behind for the experts and for combine.
//
//   column   0 .. N-1: the shared rank of that number;  N + e: routed expert e        N = 0: the published tables
//   pair     token * (K + S) + i:  i < K routed, then the S shared ones               S = 0: the published [T, K]

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/ep/rows.hpp"
#include "ops/low_latency/shared_experts.hpp"
#include "runtime/core_context.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// How far a dispatch and its combine have come on this rank.
enum class LowLatencyStage : std::uint8_t {
  empty,     // nothing sent, or the dispatch has failed
  sent,      // between dispatch_begin and dispatch_finish: the rows are on their way
  received,  // the rows are here
  summing,   // between combine_begin and combine_finish
};

/// One for each call in flight; a further call overwrites them, and uses their memory.
struct LowLatencyTables {
  LowLatencyStage stage = LowLatencyStage::empty;
  std::uint64_t round = 0;  // which low-latency dispatch of the communicator this was, from 1 on
  runtime::CommunicatorId communicator;
  std::int64_t tokens = 0;
  std::int32_t topk = 0;
  std::int32_t columns = 0;  // N + E
  SharedExperts shared;
  std::int64_t hidden = 0;
  DType dtype = DType::bf16;
  Offset expand_x;

  // The same on every rank.
  std::vector<std::int32_t> recv_data;      // [R, N + E]: rows that rank s sends to a column
  std::vector<std::int64_t> ep_recv_count;  // [N + E, R]: inclusive prefix sum within the owner of the column, by
                                            // (column, source rank): where the rows of that source end
  std::vector<std::int64_t> rows_of;        // [R]: that each rank receives

  // This rank's own.
  std::vector<std::int32_t> expand_idx;  // [T, K + S]: earlier pairs for the same column; -1: not sent
  std::vector<std::int64_t>
      expert_token_nums;  // rows of each own column, or where they end: its shared expert, then its
                          // routed ones
  std::int64_t recv_rows = 0;

  // How combine finds the rows, and what is in flight.
  std::vector<std::int32_t> pair_column;  // [T, K + S]: -1: not sent
  std::vector<Rank> owner;                // [N + E]
  std::uint64_t owner_of = 0;             // ExpertMap::hash() of the map that `owner` and `shared` were made of
  std::uint64_t combine_round = 0;
  std::optional<Offset> combined_from;  // the answers that peers may still read
  std::int64_t combined_capacity = 0;   // as combine_begin was told

  [[nodiscard]] std::int32_t pairs_of_token() const { return topk + shared.experts; }
  /// Where the row of a pair of rank `me` lies; nothing where the pair was not sent.
  [[nodiscard]] std::optional<RowPlace> place_of(std::int64_t pair, Rank me) const;
};

}  // namespace shmoe::ops
