#pragma once
// Reduce-scatter among some of the ranks, with the memory of the others as further ways from each to each.
//
//   host      arguments --> Handshake
//   enter     BarrierAll of all ranks: everybody is done with the call before
//   send      every core: its part of each shard -> the receiver's memory, or that of the shard's lender
//             then its flag at the receiver
//   reduce    every core: waits for the flag of the same core of each source, reduces the same parts in registers
//
//   y of position p = own chunk op chunk of p+1 op chunk of p+2 ... (around), always in this order
//
// Where x is symmetric and all ranks are in the group, nothing is sent: each rank reads the chunks where they are, and a
// barrier at the end says that it has.
//
// Source: reduce_scatter_detour of the published operators, which has fp16 alone, an accumulator in memory and a core for
//         each shard and target.

#include <optional>

#include "ops/detour/call.hpp"
#include "ops/detour/reduce.hpp"

namespace shmoe::ops {

struct ReduceScatterArgs {
  DetourShape shape;
  Reduction reduction = Reduction::sum;
  // One of the two.
  std::span<const std::byte> x = {};    // [L] of the type, any own memory
  std::optional<Offset> x_at = {};      // the same, symmetric
  std::span<std::byte> y = {};          // out: [own chunk], any own memory
  std::span<std::byte> workspace = {};  // own memory, workspace_size of it or more; none: that of the cores
};

/// The order of the sums does not depend on cores, shards or schedule: results are equal to the bit.
///
/// Shapes:  L >= 0, not necessarily a multiple of C: the first L mod C positions have chunks longer by one. C from 1 to all
///          ranks
/// Order:   on return y is complete and x may change, symmetric or not
/// Errors:  in safe on every rank the same, and nothing sent: mismatch of elements, type, reduction, group, window,
///          x_at or heaps; invalid_argument of a group with a rank that does not exist or is named twice, of x and y of
///          other lengths, of tensors or a window over slots or over each other, and of shards that do not fit into the
///          window, with both sizes. Of waits, each rank its own: peer_lost, aborted, deadline
/// Source:  reduce_scatter_detour; with the group of all ranks the plain reduce-scatter
Result<void> reduce_scatter_detour(runtime::Communicator& comm, const ReduceScatterArgs& args);

/// Units:   bytes; a call of these arguments is refused with fewer
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const ReduceScatterArgs& args);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
DetourCall reduce_scatter_call(const runtime::Communicator& comm, const ReduceScatterArgs& args);

/// What a core takes for itself.
/// Units:   bytes
struct TermRoom {
  std::int64_t carried = 0;  // of a symmetric x on its way to the window
  std::int64_t term = 0;     // of each source at a time
  std::int64_t terms = 0;    // sources, this rank included

  [[nodiscard]] Bytes share() const;
};
/// Bytes of `elements` that a core of `cores` works on at a time: all stay in its cache, those of every source.
std::int64_t term_bytes(std::int64_t elements, Element type, std::int32_t cores);

/// Order:   as reduce_scatter_detour
void reduce_scatter_kernel(runtime::CoreContext& context, const ReduceScatterArgs& args, const DetourCall& call);

}  // namespace shmoe::ops
