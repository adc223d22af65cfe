#pragma once
// `shmoe bench ep`, and what a choice costs dispatch and combine: topk, int8, notes, inspection.

#include "apps/bench/bench_job.hpp"
#include "apps/bench/ep_blocks.hpp"

namespace shmoe::apps {

/// Ours by turns with three ways of MPI and with the limits.
Result<BenchReport> bench_ep(BenchPlace& place, const EpPlan& plan);

/// Ours at the top k of the plan by turns with ours at `against`: what a row costs.
Result<BenchReport> bench_topk(BenchPlace& place, const EpPlan& plan, std::int32_t against);

/// Dispatch of rows as int8 by turns with rows as they are.
Result<BenchReport> bench_int8(BenchPlace& place, const EpPlan& plan);

/// With wait records, ledger and events by turns with none of them.
Result<BenchReport> bench_notes(BenchPlace& place, const EpPlan& plan);

/// With an inspector that looks at all there is, without pause, by turns with none. `folder`: where `shmoe` is.
Result<BenchReport> bench_inspection(BenchPlace& place, const EpPlan& plan, const std::string& folder);

}  // namespace shmoe::apps
