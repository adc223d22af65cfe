#pragma once
// What every body of Fabric asks of its callers.

#include "shmem/fabric.hpp"
#include "shmem/peers.hpp"

namespace shmoe::shmem {

void expect_rank(const Peers& peers, Rank rank, SourceSite site);
/// The bytes lie in the block.
void expect_place(const Peers& peers, Rank rank, Offset at, Bytes size, SourceSite site);
/// In strict mode: this rank is a declared writer of the slot, of this value, and the kind of signal is the declared one.
void expect_signal(const Peers& peers, Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site);
/// In strict mode too: the slots can hold the word, and somebody may write it.
/// Before a wait begins, because one that has begun must not leave its record behind by an exception.
void expect_wait(const Peers& peers, const WaitSpec& spec, SourceSite site);

}  // namespace shmoe::shmem
