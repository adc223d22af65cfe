#pragma once
// The memory of a job under the eyes of shmem::BusErrorWatch.

#include <span>

#include "runtime/job.hpp"
#include "shmem/bus_error.hpp"

namespace shmoe::runtime {

/// The two objects of every rank.
shmem::BusErrorWatch watch_objects(const Job& job);

/// The flags of a communicator as they are mapped once more, and its abort slots. `peers` has them mapped already.
shmem::BusErrorWatch watch_communicator(const Job& job, CommunicatorId id, const shmem::Peers& peers,
                                        std::span<const Rank> members);

}  // namespace shmoe::runtime
