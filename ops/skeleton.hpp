#pragma once
// The operator to copy: every rank hands a row to its right neighbour.
//
//   host      inbox, shapes --> Handshake
//   enter     BarrierAll: everybody has read the row of the call before
//   send      every core: its part of the row -> inbox of rank+1, then flag [me][core] there
//   wait      every core: flag [left][core] here
//             SyncAll: all parts have arrived
//
//        rank 0 --row--> rank 1 --row--> rank 2 --row--> rank 0

#include <cstddef>
#include <span>
#include <vector>

#include "ops/handshake.hpp"
#include "runtime/communicator.hpp"
#include "runtime/registry.hpp"

namespace shmoe::ops {

struct RotateArgs {
  std::span<const std::byte> row;  // any own memory; as long on every rank
  Offset inbox;                    // symmetric, as long as the row
};

/// The sequential answer: what lies in each inbox.
/// Shapes:  a row for each rank
std::vector<std::vector<std::byte>> rotate_reference(const std::vector<std::vector<std::byte>>& rows);

/// Shapes:  any length, also none
/// Order:   parts of the row -> flag; on return the left neighbour's row is readable in the own inbox, and the own row
///          may change. Slots: flag [source][core] of the round; a communicator has them for all its cores
/// Errors:  in safe on every rank the same, and nothing written: mismatch of length, inbox or heaps; invalid_argument where
///          the inbox lies neither in the heap nor in the user data, over slots, or over the row. Of waits, each rank its
///          own: peer_lost, aborted, deadline
Result<void> rotate(runtime::Communicator& comm, const RotateArgs& args);

/// Nothing: a part of the row goes out as it is.
/// Units:   bytes
runtime::WorkspaceSize workspace_size(const runtime::Communicator& comm, const RotateArgs& args);

/// What this rank brings into the entry barrier.
/// Order:   sends nothing
Handshake rotate_handshake(const runtime::Communicator& comm, const RotateArgs& args);

/// Order:   as rotate.
void rotate_kernel(runtime::CoreContext& context, const RotateArgs& args, const Handshake& handshake);

}  // namespace shmoe::ops
