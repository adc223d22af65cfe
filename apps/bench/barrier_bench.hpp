#pragma once
// `shmoe bench barrier`: one round of the barrier of all ranks.

#include "apps/bench/bench_job.hpp"

namespace shmoe::apps {

struct BarrierPlan {
  std::int64_t rounds = 1000;  // of a block
  std::int64_t blocks = 20;
};

/// Ours within a kernel, ours as a call of the host, MPI_Barrier, and between two ranks a bare flag there and back.
Result<BenchReport> bench_barrier(BenchPlace& place, const BarrierPlan& plan);

}  // namespace shmoe::apps
