#pragma once
// What a detour gains where the direct link is slow, and whether the lengths of the shards say how much.

#include "apps/bench/bench_job.hpp"

namespace shmoe::apps {

/// Adds the row detour.slow_link. Rank 0 runs four ranks as threads, whose puts a throttle holds back.
/// Order:   a barrier of all ranks
Result<void> add_slow_link(BenchReport& report, BenchPlace& place);

}  // namespace shmoe::apps
