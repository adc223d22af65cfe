#pragma once
// Fetches the K expert outputs of each token from their owners and adds them up, weighted, without copying a row.
//
//   host      tables, shapes --> Handshake
//   enter     BarrierAll: every rank's expert output is complete
//   sums      every core: its share of the tokens:  x[t] = round(sum over k of expert_out[row(t,k)] * weight[t,k])
//             where asked                           grad_out[t,k] = prob_grad[row(t,k)]
//             SyncAll

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/handshake.hpp"
#include "runtime/communicator.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

struct CombineArgs {
  Offset expert_out;          // symmetric [capacity, H] of dtype: row i is the expert's answer to row i of recv_x
  std::int64_t capacity = 0;  // rows; the same on every rank
  DType dtype = DType::bf16;
  std::int64_t hidden = 0;
  std::span<const std::int32_t> topk_idx;  // [T, K] i32, where layout takes i64: Routing::topk_idx_i32
  std::span<const float> weights;          // [T, K], or none: every weight is 1
  const ExpertMap& experts;
  const LayoutTables& layout;
  const NotifyTables& notify;
  std::span<std::byte> x;                  // out: [T, H] of dtype, any own memory
  std::optional<Offset> prob_grad = {};    // symmetric [capacity, 1] of dtype: the gradient of the weight of each row
  std::span<std::byte> grad_out = {};      // out, where there is a prob_grad: [T, K] of dtype
  std::span<std::int64_t> wait_cost = {};  // out: [R] or none
  std::span<std::byte> workspace = {};     // own memory, workspace_size of it or more; none: that of the cores
};

/// Products and sums are single fp32 operations from +0 in ascending k, then one rounding to nearest even: the result
/// does not depend on the number of cores or the schedule. A token whose pairs are all dropped gets zeros.
///
/// Gradients are copied as they are; a dropped pair gets 0.
///
/// Shapes:  H >= 1; row stride H * sizeof(dtype), no padding
/// Units:   wait_cost[s] grows by the nanoseconds this rank waited for rank s in the entry barrier
/// Order:   no barrier at the exit: peers may still read this rank's expert_out and prob_grad on return, so they must not
///          change before this rank has passed the entry of the next notify or dispatch. Further combines on the same
///          tables read the same rows
/// Errors:  in safe on every rank the same: mismatch of experts, owner map, K, H, dtype, capacity, expert_out, prob_grad,
///          tables or heaps; capacity_exceeded; invalid_argument of a rank's own shapes and ids, or of an owner map that
///          is not notify's. Of waits, each rank its own: peer_lost, aborted, deadline
/// Source:  combine normal of the published operators; the cost of waiting, which the published kernel takes a place for
///          and never writes
Result<void> combine_normal(runtime::Communicator& comm, const CombineArgs& args);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const CombineArgs& args);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
Handshake combine_handshake(const CombineArgs& args, const runtime::Communicator& comm);

/// Order:   as combine_normal.
void combine_normal_kernel(runtime::CoreContext& context, const CombineArgs& args, const Handshake& handshake);

}  // namespace shmoe::ops
