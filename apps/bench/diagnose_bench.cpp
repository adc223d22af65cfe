#include "apps/bench/diagnose_bench.hpp"

#include <algorithm>

#include "apps/bench/child_figures.hpp"
#include "apps/bench/samples.hpp"
#include "apps/shmoe/say.hpp"

namespace shmoe::apps {
namespace {

std::vector<std::string> stuck_job(const DiagnosePlan& plan, const std::string& folder) {
  return {folder + "/shmoe", "run", "-n", fmt::to_string(plan.ranks), "--no-prefix", "--", folder + "/shmoe-stuck"};
}

}  // namespace

Result<BenchReport> bench_diagnose(const DiagnosePlan& plan, const std::string& folder) {
  const auto milliseconds = child_figures({.command = [&] { return stuck_job(plan, folder); },
                                           .environment = {{"SHMOE_CORES", fmt::to_string(plan.cores)}},
                                           .repeats = plan.repeats,
                                           .exit_code = kExitDeadlock});
  if (!milliseconds) return milliseconds.error();
  const Estimate proof = estimate(*milliseconds);
  BenchReport report;
  report.rows.push_back({.name = "diagnose.proof_ms", .ranks = plan.ranks, .value = proof.median, .verified = true});
  report.text = fmt::format(
      "{} of {}, {}: from the beginning of the last wait that can never end to the printed verdict\n"
      "median {:.0f} ms, 95 % interval {:.0f} to {:.0f} ms, longest {:.0f} ms\n",
      counted(plan.ranks, "rank"), counted(plan.cores, "core"), counted(plan.repeats, "job"), proof.median, proof.low,
      proof.high, *std::ranges::max_element(*milliseconds));
  return report;
}

}  // namespace shmoe::apps
