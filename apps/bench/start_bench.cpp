#include "apps/bench/start_bench.hpp"

#include "apps/bench/child_figures.hpp"
#include "apps/bench/samples.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/say.hpp"

namespace shmoe::apps {
namespace {

std::vector<std::string> command_for(const StartPlan& plan, const std::string& folder) {
  return {folder + "/shmoe",
          "run",
          "-n",
          fmt::to_string(plan.ranks),
          "--no-prefix",
          "--",
          folder + "/shmoe-first-operator",
          fmt::to_string(wall_ns())};
}

}  // namespace

Result<BenchReport> bench_start(const StartPlan& plan, const std::string& folder) {
  const auto nanoseconds =
      child_figures({.command = [&] { return command_for(plan, folder); }, .repeats = plan.repeats});
  if (!nanoseconds) return nanoseconds.error();
  std::vector<double> times;
  for (const double time : *nanoseconds) times.push_back(time / 1e3);
  const Estimate start = estimate(times);
  BenchReport report;
  report.rows.push_back({.name = "start", .ranks = plan.ranks, .ours_us = start.median, .verified = true});
  report.text = fmt::format(
      "{}, {}: from the exec of `shmoe run` until all of them have finished layout and notify\n"
      "median {:.1f} ms, 95 % interval {:.1f} to {:.1f} ms\n",
      counted(plan.ranks, "rank"), counted(plan.repeats, "start"), start.median / 1e3, start.low / 1e3,
      start.high / 1e3);
  return report;
}

}  // namespace shmoe::apps
