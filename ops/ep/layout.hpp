#pragma once
// Counts what this rank will send. No rank waits for another here.
//
//   phase 1   every core: own tokens    -> own row of notify_send_data, is_token_in_rank
//             SyncAll
//   fold      every core: own columns   -> exclusive prefix down the rows; totals to num_tokens_per_expert
//             SyncAll
//   phase 2   every core: own tokens    -> send_token_idx = row[e]++

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/routing.hpp"
#include "runtime/communicator.hpp"
#include "runtime/registry.hpp"

namespace shmoe::ops {

struct LayoutArgs {
  const Routing& routing;  // its int64 ids
  const ExpertMap& experts;
  /// Symmetric [E] i32. Peers read it in notify until this rank has passed the entry of the next dispatch or of the next
  /// notify: EpBuffers hands out two by turns.
  Offset num_tokens_per_expert;
  std::span<std::byte> workspace = {};  // own memory, workspace_size of it or more; none: that of the cores
};

/// The tables of this rank, under their published names; all i32, row-major.
struct LayoutTables {
  std::int64_t tokens = 0;
  std::int32_t topk = 0;
  std::int32_t experts = 0;
  runtime::CommunicatorId communicator;           // whose notify and dispatch they are for
  Offset num_tokens_per_expert;                   // symmetric [E]: pairs of this rank for each expert
  std::vector<std::int32_t> num_tokens_per_rank;  // [R]: tokens with at least one expert there
  std::vector<std::int32_t> is_token_in_rank;     // [T, R]: 0 or 1
  std::vector<std::int32_t> notify_send_data;     // [C, E]: pairs of the cores up to and including c
  std::vector<std::int32_t> send_token_idx;       // [T, K]: earlier pairs with the same expert; -1: dropped
  std::vector<std::int32_t> rank_rows;            // [C, R] scratch of the cores: earlier tokens in each rank
  /// A shape or an id that does not fit. It is raised by notify, on every rank: a rank that stopped here would leave its
  /// peers waiting in notify's barrier for ever.
  std::optional<Error> fault;
};

/// Fills the tables; those of an earlier call are overwritten, and lend their memory.
///
/// Shapes:  topk_idx [T, K] i64, ids in [-1, E); any T >= 0, 1 <= K <= E, R >= 1, C >= 1; one expert may occur several
///          times in a token, each time with a row of its own
/// Order:   SyncAll only; the counts are readable by peers after their next barrier with this rank
/// Errors:  bad ids, shapes and places in tables.fault (invalid_argument naming rank, token, k and value); notify raises
///          it
/// Source:  dispatch layout of the published operators; sums are per-core rows added in core order instead of atomic
///          adds, so nothing needs to be zero before
Result<void> layout(runtime::Communicator& comm, const LayoutArgs& args, LayoutTables& tables);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const LayoutArgs& args);
/// Of it, each core's.
Bytes layout_share(std::int32_t experts, std::int32_t cores);

/// Sizes the tables, and finds the fault of the shapes where there is one: then no kernel runs.
void prepare_layout(const LayoutArgs& args, const runtime::Communicator& comm, LayoutTables& tables);

/// Order:   as layout.
void layout_kernel(runtime::CoreContext& context, const LayoutArgs& args, LayoutTables& tables);

}  // namespace shmoe::ops
