#pragma once
// The ipc window of the detour collectives: symmetric memory of the size that SHMOE_BUFFSIZE says, and no byte more.

#include "runtime/communicator.hpp"
#include "shmem/layout.hpp"

namespace shmoe::ops {

/// Allocates it, once for all calls: a call that needs more is refused. Every member alike; free(window.at) gives it back.
/// In a faithful profile it is the place that the map has for it.
/// Units:   SHMOE_BUFFSIZE counts MiB
/// Errors:  invalid_argument where SHMOE_BUFFSIZE is 0; as Communicator::allocate, with both settings
Result<shmem::Region> allocate_window(runtime::Communicator& comm);

}  // namespace shmoe::ops
