#pragma once
// Three ways to do without us that MPI has. Each is one rank's part of a collective; making one is collective too.
//
//   pipeline   sort, Alltoall of counts, pack, Alltoallv, permute; back: permute, Alltoallv, weighted sum
//   hindexed   sort, Alltoall of counts, Alltoallw with types on both sides that pick rows and place them, no packing;
//              back: Alltoallw likewise, weighted sum
//   window     Allgather of counts, direct stores into the owner's part of a shared window, sync and barrier; back:
//              barrier, weighted sum of direct loads

#include <memory>

#include "apps/bench/contender.hpp"
#include "apps/bench/row_moves.hpp"
#include "apps/bench/workload.hpp"

namespace shmoe::apps {

std::unique_ptr<Contender> make_mpi_pipeline(const Workload& workload);
std::unique_ptr<Contender> make_mpi_hindexed(const Workload& workload);
/// `copy`: how rows are stored; the caller has found out which is fastest here.
std::unique_ptr<Contender> make_mpi_window(const Workload& workload, CopyKind copy);

}  // namespace shmoe::apps
