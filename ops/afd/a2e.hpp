#pragma once
// Hands the whole batch of each attention rank to the expert rank it belongs to.
//
//   host        shape, batch, buffers --> Handshake
//   enter       BarrierAll: the expert ranks are done with the call before
//   attention   batch size and mask, expert ids, scales -> own window, a flag each as soon as it is there
//               every core: its rows -> own window;  SyncAll;  flag x
//   expert      for each attention rank it serves:  wait for a flag, fetch what it stands for
//
//   attention 2  [window] <---- fetched by ---- expert 0         expand_x of expert 0:  | rows of 2 | rows of 4 | ..
//                     `-- flags pushed to -----^

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/afd/window.hpp"
#include "runtime/registry.hpp"

namespace shmoe::ops {

struct A2eArgs {
  AfdPlace place;
  // Of an attention rank: any own memory.
  std::span<const std::byte> x = {};               // [B, H] of dtype
  std::span<const std::int32_t> expert_ids = {};   // [B, K], -1 drops a pair; none without a gate
  std::span<const float> scales = {};              // [B, K]; none without a gate
  std::span<const std::uint8_t> active_mask = {};  // [B], 0 or 1, or none: every row is active
  // Of an expert rank: any own memory.
  std::span<std::byte> expand_x = {};  // out: [AfdShape::capacity, H] of dtype, or int8
  // Own memory, workspace_size of it or more; none: that of the cores.
  std::span<std::byte> workspace = {};
};

/// What has come, under the published names. The vectors lend their memory to the next call.
struct A2eTables {
  std::uint64_t round = 0;                     // of the communicator: which call of a2e this was; 0: it has failed
  std::int64_t rows = 0;                       // an expert rank: of all it serves; an attention rank: its batch
  std::vector<std::int32_t> atten_batch_size;  // of each attention rank served; an attention rank: its own
  std::vector<std::uint8_t> x_active_mask;     // [rows]
  // Of expert ranks.
  std::vector<std::int32_t> expert_ids;  // [rows, K]; -1 in rows that are not active; none without a gate
  std::vector<float> expert_scales;      // [rows, K]; 0 there; none without a gate
  std::vector<float> row_scales;         // [rows], with int8 rows
  // What the call was for: e2a takes them for the same alone.
  std::optional<AfdShape> shape;
  runtime::CommunicatorId communicator;
};

/// Rows of an expert rank lie by (index of the attention rank, row), one batch after the other. Rows that are not active
/// are not sent: they are zeros, with ids of -1 and scales of 0. int8 quantises each row as shmem::quantise_row does,
/// before it is sent.
///
/// Shapes:  any E, A >= 1, also A no multiple of E, and E > A; batches of 0 .. max_batch rows, different ones on different
///          ranks; H, K, C >= 1
/// Order:   on return the rows of an expert rank are there. The window of an attention rank may still be read, but x, ids
///          and scales may change
/// Errors:  in safe on every rank the same, and nothing sent: mismatch of E, A, max_batch, H, K, dtype, quantisation,
///          gate, window, slots or heaps; invalid_argument and capacity_exceeded of a rank's own batch, ids and
///          buffers, of a window over slots, and of tensors in it. Of waits, each rank its own: peer_lost, aborted,
///          deadline. The published profiles refuse alone what their kernel would ignore
/// Source:  published a2e. Ours in safe: batch sizes and masks are sent, so batches may differ; int8, fp16 and fp32; rounds
///          of 56 bits; the handshake at the entry, after which one window serves all calls. The published kernel has
///          none: its two halves change with the count of both operators together, which is enough while they take turns
Result<void> a2e(runtime::Communicator& comm, const A2eArgs& args, A2eTables& tables);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const A2eArgs& args);
/// Of its own part, what each core of an attention rank takes; `made_up`: entries of a mask that the caller left out.
Bytes a2e_share(std::int64_t made_up, const AfdShape& shape);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
Handshake a2e_handshake(const A2eArgs& args, const runtime::Communicator& comm);

/// Gives the tables their sizes, for the kernel to fill.
void prepare_a2e(const A2eArgs& args, const runtime::Communicator& comm, A2eTables& tables);

/// Order:   as a2e
void a2e_kernel(runtime::CoreContext& context, const A2eArgs& args, const Handshake& handshake, A2eTables& tables);

}  // namespace shmoe::ops
