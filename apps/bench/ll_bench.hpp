#pragma once
// `shmoe bench ll`: dispatch and combine for few tokens, median and 99th percentile.

#include "apps/bench/bench_job.hpp"
#include "apps/bench/ll_blocks.hpp"

namespace shmoe::apps {

/// Ours by turns with the MPI pipeline of bench ep and, between two ranks, with two bare flags there and back and the
/// bare copies and reads of the same rows. Slots: ops::declare_low_latency.
Result<BenchReport> bench_ll(BenchPlace& place, const LlPlan& plan);

}  // namespace shmoe::apps
