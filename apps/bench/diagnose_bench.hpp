#pragma once
// `shmoe bench diagnose`: how long a job whose waits can never end takes to say so, proof included.

#include <string>

#include "apps/bench/report.hpp"

namespace shmoe::apps {

struct DiagnosePlan {
  std::int32_t ranks = 8;
  std::int32_t cores = 4;
  std::int64_t repeats = 21;
};

/// `folder`: where `shmoe` and `shmoe-stuck` are.
/// Errors:  as child_figures
Result<BenchReport> bench_diagnose(const DiagnosePlan& plan, const std::string& folder);

}  // namespace shmoe::apps
