#pragma once
// `shmoe bench collectives`: all-to-all and reduce-scatter of all ranks, and what a detour gains on a slow link.

#include "apps/bench/bench_job.hpp"

namespace shmoe::apps {

struct CollectivesPlan {
  std::int64_t blocks = 20;
  std::int64_t most_kib = 16 * 1024;  // of a pair: larger ones are left out
};

/// Ours beside MPI_Alltoall and MPI_Reduce_scatter_block, by turns, and a throttled link with a detour and without.
Result<BenchReport> bench_collectives(BenchPlace& place, const CollectivesPlan& plan);

}  // namespace shmoe::apps
