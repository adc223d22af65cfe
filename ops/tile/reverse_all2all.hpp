#pragma once
// All-to-all over heads, as sequence-parallel attention needs it: every rank has its part of the positions with all
// heads, or all positions with its part of the heads, and changes from one to the other.
//
//   reverse   x [S*R, H, D]  -->  y [S, H*R, D]      y of rank p [s, r*H + h] = x of rank r [p*S + s, h]
//   forward   x [S, H*R, D]  -->  y [S*R, H, D]      y of rank p [r*S + s, h] = x of rank r [s, p*H + h]
//
//   host      arguments --> Handshake
//   enter     BarrierAll: everybody is done with the call before
//   producer  for each block of S:   wait until the slot at the target is 0, store its part into the target's buffer
//                                    fence, slots = 1
//   consumer  for each block of S:   wait until the own slot is 1, copy the buffer to y
//                                    fence, own slots = 0: the credit for block + B
//
// Source: the all-to-all of the public Triton kernels with wait and notify, with the slot formula corrected and both ways
//         on credits: the published forward one has a buffer for each block, and its host clears the slots.
//
//        rank r                                        rank p
//        x --store--> [buffer 0][buffer 1] at p  --load--> y          slot [buffer][r][u] at p:  0 --r--> 1 --p--> 0

#include <cstddef>
#include <span>

#include "ops/handshake.hpp"
#include "ops/tile/all2all_tasks.hpp"
#include "runtime/communicator.hpp"
#include "runtime/registry.hpp"
#include "shmem/signal.hpp"

namespace shmoe::ops {

/// Which way round.
enum class All2AllWay : std::uint8_t { reverse, forward };

struct All2AllArgs {
  All2AllShape shape;
  All2AllTiling tiling = {};
  std::span<const std::byte> x;      // any own memory
  std::span<std::byte> y;            // out: any own memory
  Offset buffers;                    // symmetric: All2AllTasks::buffer_bytes
  const shmem::SlotFamily& signals;  // of all2all_signals
  Merge merge = Merge::none;
  std::int32_t programs = 0;  // of a rank; 0: as many as it has cores
};

/// Adds the slots of calls with up to `buffers` buffers and `per_peer` tasks to a plan, in the user data from `base` on: to
/// be called in Config::declare_slots.
/// Errors:  a broken contract where they do not fit, with both sizes.
shmem::SlotFamily declare_all2all(shmem::SlotPlan& plan, const shmem::BlockMap& map, std::int32_t buffers,
                                  std::int64_t per_peer, Offset base = Offset{0}, std::string_view name = "all2all");
/// Those of a communicator. Where they are not declared they are empty, and the operators refuse them on every rank.
shmem::SlotFamily all2all_signals(const shmem::SlotPlan& plan, std::string_view name = "all2all");

/// The slots return to 0 by themselves: nothing is cleared between calls.
///
/// Shapes:  S >= 0, H, D >= 1, the same on every rank; bs, bd, B >= 1 of any size
/// Order:   on return y is complete and x may change; nobody writes the buffers any more
/// Errors:  in safe on every rank the same, and nothing sent: mismatch of shape, tiling, programs, merge, buffers,
///          slots or heaps; invalid_argument of x, y, buffers or slots that are too small, of buffers over slots, of
///          any of them over each other, and of more programs than cores where one that runs needs one that never
///          begins. Of waits, each rank its own: peer_lost, aborted, deadlock, deadline
Result<void> reverse_all2all(runtime::Communicator& comm, const All2AllArgs& args);

/// The other way back.
///
/// Shapes:  as reverse_all2all
/// Order:   as reverse_all2all
/// Errors:  as reverse_all2all
Result<void> forward_all2all(runtime::Communicator& comm, const All2AllArgs& args);

/// Units:   bytes; all of it symmetric, refused where the block of the communicator has fewer from args.buffers on
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const All2AllArgs& args);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
Handshake all2all_handshake(const runtime::Communicator& comm, All2AllWay way, const All2AllArgs& args);

/// What one program does behind the entry barrier.
/// Order:   as reverse_all2all
void all2all_program(runtime::CoreContext& context, All2AllWay way, const All2AllArgs& args);

}  // namespace shmoe::ops
