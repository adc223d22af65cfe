#pragma once
// `shmoe bench ep` and `shmoe bench topk`: how long dispatch and combine take.

#include "apps/bench/bench_job.hpp"
#include "apps/bench/ep_blocks.hpp"

namespace shmoe::apps {

/// Ours by turns with three ways of MPI and with the limits.
Result<BenchReport> bench_ep(BenchPlace& place, const EpPlan& plan);

/// Ours at the top k of the plan by turns with ours at `against`: what a row costs.
Result<BenchReport> bench_topk(BenchPlace& place, const EpPlan& plan, std::int32_t against);

}  // namespace shmoe::apps
