#pragma once
// Symmetric memory as the host of the tile language asks for it: calloc and align. malloc and free are
// Communicator::allocate and free.

#include "runtime/communicator.hpp"

namespace shmoe::ops::tile {

/// A block, and the place in it that was asked for.
struct AlignedBlock {
  Offset block;  // to free
  Offset at;
};

/// `count` elements of `size` bytes each, all 0. Collective.
/// Order:   a barrier: the memory is zero on every rank on return.
/// Errors:  invalid_argument where count * size passes 2^64; as Communicator::allocate and barrier
Result<Offset> calloc(runtime::Communicator& comm, std::uint64_t count, Bytes size);

/// At a multiple of `alignment`. Collective.
/// Order:   a barrier.
/// Errors:  invalid_argument where the alignment is no power of two; as Communicator::allocate and barrier
Result<AlignedBlock> align(runtime::Communicator& comm, Bytes alignment, Bytes size);

}  // namespace shmoe::ops::tile
