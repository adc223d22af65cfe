#pragma once
// All-to-all among some of the ranks, with the memory of the others as further ways from each to each.
//
//   host      arguments --> Handshake
//   enter     BarrierAll of all ranks: everybody is done with the call before
//   send      every core: its part of each shard -> the receiver's memory, or that of the shard's lender
//             then its flag at the receiver
//   receive   every core: waits for the flag of the same core of each source, copies the same parts to y
//
//        rank 0 ----- shard 0 -----> rank 1 --> y         ranks 2 and 3 take part in the barrier alone
//               \---- shard 1 -> 2's memory --/
//
// Source: all_to_all_detour of the published operators. Theirs has no barrier and cuts the window by all pairs of ranks;
//         here a slot is as long as the longest shard, so the window holds what fits, and groups may change with every call.

#include <optional>

#include "ops/detour/call.hpp"

namespace shmoe::ops {

struct AllToAllArgs {
  DetourShape shape;
  std::span<const std::byte> x = {};  // [L] of the type, any own memory
  // One of the two.
  std::span<std::byte> y = {};          // out: [C * own chunk], any own memory
  std::optional<Offset> y_at = {};      // out: the same, symmetric; then shard 0 is written straight to its place
  std::span<std::byte> workspace = {};  // own memory, workspace_size of it or more; none: that of the cores
};

/// y[i] = the chunk that the rank at position i has for this one. With a symmetric y and all ranks in the group nothing
/// waits in the window, and each byte is written once.
///
/// Shapes:  L >= 0, not necessarily a multiple of C: the first L mod C positions receive chunks longer by one. C from 1 to
///          all ranks. A symmetric y is as large on every rank as on the one with the longest chunk
/// Order:   on return y is complete and x may change. Peers write a symmetric y only after this rank has entered
/// Errors:  in safe on every rank the same, and nothing sent: mismatch of elements, type, group, window, y_at or heaps;
///          invalid_argument of a group with a rank that does not exist or is named twice, of x and y of other lengths,
///          of tensors or a window over slots or over each other, and of shards that do not fit into the window, with
///          both sizes. Of waits, each rank its own: peer_lost, aborted, deadline
/// Source:  all_to_all_detour; with the group of all ranks the plain all-to-all
Result<void> all_to_all_detour(runtime::Communicator& comm, const AllToAllArgs& args);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const AllToAllArgs& args);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
DetourCall all_to_all_call(const runtime::Communicator& comm, const AllToAllArgs& args);

/// Order:   as all_to_all_detour
void all_to_all_kernel(runtime::CoreContext& context, const AllToAllArgs& args, const DetourCall& call);

}  // namespace shmoe::ops
