#pragma once
// Puts each token row straight to its final place on the rank that owns its expert: one write a row, no staging.
//
//   host      tables, capacity, shapes --> Handshake
//   enter     BarrierAll: every rank has finished reading counts, and the rows of the call before
//   rows      every core: its share of the T*K pairs -> recv_x[row] of the owner, and recv_scales[row]
//   exit      BarrierAll: all rows for this rank have arrived
//
//   recv_x of a rank:  | expert l=0: src 0 | src 1 | .. | expert l=1: src 0 | .. | not written .. capacity |

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/quant.hpp"
#include "ops/handshake.hpp"
#include "runtime/communicator.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

struct DispatchArgs {
  std::span<const std::byte> x;  // [T, H] of dtype, any own memory
  DType dtype = DType::bf16;
  std::int64_t hidden = 0;
  std::span<const std::int32_t> topk_idx;  // [T, K] i32, where layout takes i64: Routing::topk_idx_i32
  const ExpertMap& experts;
  const LayoutTables& layout;
  const NotifyTables& notify;
  Offset recv_x;              // symmetric [capacity, H] of dtype, or int8
  std::int64_t capacity = 0;  // rows; the same on every rank
  Quant quant = Quant::none;
  Offset recv_scales = {};                 // int8 only: symmetric [capacity] fp32, one of each row
  std::span<std::int64_t> wait_cost = {};  // out: [R] or none
  std::span<std::byte> workspace = {};     // own memory, workspace_size of it or more; none: that of the cores
};

/// Tables may be used again for further dispatches of the same routing. int8 quantises each row as shmem::quantise_row
/// does, before it is sent.
///
/// Shapes:  H >= 1; row stride H * sizeof(element), no padding; T = 0 takes part like any other rank
/// Units:   wait_cost[s] grows by the nanoseconds this rank waited for rank s in the exit barrier
/// Order:   on return the rows of this rank's recv_x are readable; padding and what comes after the rows keeps its old
///          content. A rank overwrites recv_x of its peers only after all of them have entered
/// Errors:  in safe on every rank the same, and no row written: capacity_exceeded; mismatch of experts, owner map, K, H,
///          dtype, quantisation, capacity, recv_x, scales, tables or heaps; invalid_argument of a rank's own shapes and
///          ids, or of an owner map that is not notify's. Of waits, each rank its own: peer_lost, aborted, deadline
/// Source:  dispatch normal of the published operators; exact row lengths instead of multiples of 32 bytes, and fp32 rows
///          too; the cost of waiting, which the published kernel takes a place for and never writes
Result<void> dispatch_normal(runtime::Communicator& comm, const DispatchArgs& args);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const DispatchArgs& args);
/// Of it, each core's.
Bytes dispatch_normal_share(Quant quant, std::int64_t hidden);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
Handshake dispatch_handshake(const DispatchArgs& args, const runtime::Communicator& comm);

/// Order:   as dispatch_normal.
void dispatch_normal_kernel(runtime::CoreContext& context, const DispatchArgs& args, const Handshake& handshake);

}  // namespace shmoe::ops
