#pragma once
// What a rank did last, as its event rings tell; they outlive it.

#include <string>

#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// "core 0 in notify round 7, wait for barrier[1] from rank 0 at zero_buffer_sync.cpp:12, 0.31 s ago"; of all cores of a
/// member the newest event in this communicator. Empty where there is none, or `peers` has no `controls`.
std::string last_step(const shmem::Peers& peers, Rank member);

}  // namespace shmoe::runtime
