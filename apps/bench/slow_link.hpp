#pragma once
// What a detour gains where the direct link is slow, and whether the lengths of the shards say how much.

#include "apps/bench/bench_job.hpp"

namespace shmoe::apps {

/// Adds the rows detour.slow_link, of an all-to-all, and detour.slow_link.reduce_scatter. Rank 0 runs four ranks as
/// threads, whose puts a throttle holds back. A row is verified where its results are right and its gain is as predicted:
/// both times are those of sleeps, so no machine is too slow for it.
/// Order:   a barrier of all ranks
Result<void> add_slow_link(BenchReport& report, BenchPlace& place);

}  // namespace shmoe::apps
