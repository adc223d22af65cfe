#pragma once
// `shmoe bench start`: from the exec of `shmoe run` until the first operators of all ranks are done.

#include <string>

#include "apps/bench/report.hpp"

namespace shmoe::apps {

struct StartPlan {
  std::int32_t ranks = 8;
  std::int64_t repeats = 11;
};

/// `folder`: where `shmoe` and `shmoe-first-operator` are.
///
/// Errors:  what start_child refuses; system where the ranks did not come to their end
Result<BenchReport> bench_start(const StartPlan& plan, const std::string& folder);

}  // namespace shmoe::apps
