#pragma once
// Dispatch for few tokens: counts and rows in one kernel, with two waits in all. Rows lie as those of dispatch_normal.
//
//   host               arguments --> Handshake, the column of each pair
//   1 LocalLayout      every core: pairs of this rank for each column -> own counts, and expand_idx      SyncAll
//   2 SetLayoutStatus  cores share the ranks: status[me] of each = round                       counts, card and error
//   3 SendCountNotify  wait for status[r]; counts of rank r -> recv_data; cards are compared             SyncAll
//                      a fault or a difference on any rank: all leave with the same error, no row was written
//   4 WaitNotify       cores share the owners: inclusive prefix -> ep_recv_count, expert_token_nums      SyncAll
//   5 InputToDstOutput every core: its share of the pairs -> expand_x[row] of the owner, dynamic_scales  SyncAll
//   6 SetSyncFlag      cores share the ranks: dispatch flag[me] of each = round
//   ---- dispatch_begin ends here, dispatch_finish goes on ----
//   7 WaitSyncFlag     wait for dispatch flag[r]                                              published: SyncAll
//   8 CleanUp          published: counts = 0. In safe nothing is left to clear: words grow, counts are written anew
//
// Source: moe_dispatch_lowlatency of the published operators. In the published profile the words are float(magic) and 1.0f,
//         flags are awaited as a sum and cleared by the reader, nothing stands between phases 5 and 6, and the pairs of
//         token 0 are all numbered 0.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/quant.hpp"
#include "ops/handshake.hpp"
#include "ops/low_latency/region.hpp"
#include "ops/low_latency/tables.hpp"
#include "runtime/communicator.hpp"
#include "runtime/registry.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// The published choices of an algorithm. The kernel that fullmesh_v2 names was never published.
enum class CommAlg : std::uint8_t { standard, fullmesh_v1, fullmesh_v2 };

struct DispatchLowLatencyArgs {
  std::span<const std::byte> x;  // [T, H] of dtype, any own memory
  DType dtype = DType::bf16;
  std::int64_t hidden = 0;
  std::span<const std::int32_t> expert_ids;  // [T, K]; -1 drops a pair
  std::int32_t topk = 0;
  const ExpertMap& experts;                     // routed ones
  std::span<const std::uint8_t> active_mask{};  // [T] or [T, K], 0 or 1, or none: all are active
  SharedExperts shared{};
  Offset expand_x;            // symmetric [capacity, H] of dtype, or int8
  std::int64_t capacity = 0;  // rows; the same on every rank
  Quant quant = Quant::none;
  Offset dynamic_scales{};          // int8 only: symmetric [capacity] fp32, one of each row
  std::span<const float> scales{};  // int8 only: smooth scales [S + E, H], or none; the same on all ranks or on none
  std::optional<float> static_scale{};  // int8 only: of every row; none: each row has its own
  GroupList expert_token_nums = GroupList::counts;
  std::int32_t tp_world_size = 1;  // more than one is refused
  CommAlg comm_alg = CommAlg::standard;
  std::span<std::byte> workspace{};  // own memory, workspace_size of it or more; none: that of the cores
};

/// Rows of a rank lie by (shared expert, own routed experts ascending, source rank, send order). A token whose pairs are
/// all masked goes to no shared expert either.
///
/// int8: each row is x[t] * scales[S + e] where there are smooth scales, shared expert i takes scales[i]; then as
/// shmem::quantise_row, or with static_scale round(x / static_scale), saturated. dynamic_scales[row] opens it either way.
///
/// Shapes:  H >= 1; row stride H * sizeof(element), no padding; any C, any R, T = 0 takes part like any other rank
/// Order:   on return the rows of this rank's expand_x are readable; what comes after them keeps its old content. A rank
///          writes expand_x of its peers only after all of them have begun this call
/// Errors:  in safe on every rank the same, and no row written: capacity_exceeded; mismatch of experts, owner map,
///          shared experts, K, H, dtype, quantisation, capacity, expand_x, dynamic_scales or heaps; invalid_argument of
///          a rank's own shapes, ids and options, of buffers over slots, over each other or over x, and of a call
///          that is begun while an older one is in flight. In the published profile on the rank alone: also of every
///          option that the published kernel ignores. Slots that are not declared: invalid_argument. Of waits, each
///          rank its own: peer_lost, aborted, deadlock, deadline
Result<void> dispatch_low_latency(runtime::Communicator& comm, const DispatchLowLatencyArgs& args,
                                  LowLatencyTables& tables);

/// Sends the rows and returns; x and the workspace may change. Two calls may be in flight, with tables and an expand_x each.
///
/// Order:   the rows of this rank's expand_x are not readable before dispatch_finish: LowLatencyBuffers says so
/// Errors:  as dispatch_low_latency
Result<void> dispatch_begin(runtime::Communicator& comm, const DispatchLowLatencyArgs& args, LowLatencyTables& tables);

/// Order:   on return the rows of this rank's expand_x are readable
/// Errors:  on this rank alone invalid_argument, where nothing is in flight in these tables, or on another
///          communicator: the call stays in flight, and nothing but a finish with its tables ends it; of waits, as
///          dispatch_low_latency
Result<void> dispatch_finish(runtime::Communicator& comm, LowLatencyTables& tables);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const DispatchLowLatencyArgs& args);
/// Of it, each core's; `columns`: shared ranks and routed experts.
Bytes dispatch_low_latency_share(std::int32_t columns, Quant quant, std::int64_t hidden);

/// What this rank brings into the exchange of counts.
/// Order:   sends nothing
Handshake dispatch_low_latency_handshake(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                                         const LowLatencyTables& tables);

}  // namespace shmoe::ops
