#include "apps/bench/commands.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "apps/bench/bench_job.hpp"
#include "apps/bench/heap_bench.hpp"
#include "apps/bench/ll_bench.hpp"
#include "ops/low_latency/region.hpp"
#include "runtime/telling.hpp"

namespace shmoe::apps {
namespace {

std::string ep_words(const BenchOptions& options) {
  const EpShape& shape = options.ep.shape;
  return fmt::format("--tokens {} --hidden {} --topk {} --experts {} --dtype {} --seed {} --blocks {}{}{}",
                     shape.tokens, shape.hidden, shape.topk, shape.experts, options.dtype, shape.seed,
                     options.ep.blocks, options.ep.cold ? " --cold" : "", options.small_pages ? " --small-pages" : "",
                     options.cores ? fmt::format(" --cores {}", *options.cores) : "");
}

/// Before any rank meets another: all of them find the same.
int refuse(const std::string& name, const Error& error) {
  runtime::tell_alike([&] { bench_failed(name, error); });
  return 1;
}

Result<void> check_shape(const EpShape& shape) {
  if (shape.topk <= shape.experts) return {};
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("top {} of {} experts: give a smaller --topk or more --experts", shape.topk,
                                      shape.experts)};
}

/// A benchmark of rows at the shape of the options.
int run_rows(const std::string& name, const BenchOptions& options,
             Result<BenchReport> (*body)(BenchPlace&, const EpPlan&)) {
  if (auto right = check_shape(options.ep.shape); !right) return refuse(name, right.error());
  return run_bench_job({.name = name,
                        .options = ep_words(options),
                        .cores = options.cores,
                        .json = options.json,
                        .body = [&](BenchPlace& place) { return body(place, options.ep); }});
}

std::string own_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

/// A benchmark that is no rank of a job.
/// Errors:  invalid_argument where a launcher has started it
Result<void> check_alone(const char* instead) {
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return launch.error();
  if (launch->launcher == "none") return {};
  return Error{
      .code = Errc::invalid_argument,
      .context = fmt::format("it {}, but this one was started by {}: run it alone", instead, launch->launcher)};
}

/// A benchmark that starts its jobs itself, from programs beside this one.
template <class Plan>
int run_jobs(const std::string& name, const std::string& words, const BenchOptions& options, const Plan& plan,
             Result<BenchReport> (*body)(const Plan&, const std::string& folder)) {
  if (auto alone = check_alone("starts the ranks itself"); !alone) return refuse(name, alone.error());
  if (auto writable = check_writable(options.json); !writable) return bench_failed(name, writable.error());
  const auto report = body(plan, own_folder());
  if (!report) return bench_failed(name, report.error());
  const auto written = write_report(*report, fmt::format("{} {}", name, words), options.json);
  return written ? 0 : bench_failed(name, written.error());
}

}  // namespace

int run_ep(const BenchOptions& options) { return run_rows("shmoe bench ep", options, bench_ep); }

int run_notes(const BenchOptions& options) { return run_rows("shmoe bench notes", options, bench_notes); }

int run_inspection(const BenchOptions& options) {
  return run_rows("shmoe bench inspection", options,
                  [](BenchPlace& place, const EpPlan& plan) { return bench_inspection(place, plan, own_folder()); });
}

int run_int8(const BenchOptions& options) { return run_rows("shmoe bench int8", options, bench_int8); }

int run_topk(const BenchOptions& options) {
  const BenchJob job{.name = "shmoe bench topk",
                     .options = fmt::format("{} --against {}", ep_words(options), options.against),
                     .cores = options.cores,
                     .json = options.json,
                     .body = [&](BenchPlace& place) { return bench_topk(place, options.ep, options.against); }};
  if (options.against == options.ep.shape.topk) {
    return refuse(job.name, {.code = Errc::invalid_argument, .context = "--against is --topk: nothing to compare"});
  }
  EpShape other = options.ep.shape;
  other.topk = options.against;
  for (const EpShape& shape : {options.ep.shape, other}) {
    if (auto right = check_shape(shape); !right) return refuse(job.name, right.error());
  }
  return run_bench_job(job);
}

int run_ll(const BenchOptions& options) {
  const std::string name = "shmoe bench ll";
  if (auto right = check_shape(options.ep.shape); !right) return refuse(name, right.error());
  const LlPlan plan{.shape = options.ep.shape, .blocks = options.ep.blocks, .compute_us = options.compute_us};
  return run_bench_job({.name = name,
                        .options = fmt::format("{} --compute {}", ep_words(options), plan.compute_us),
                        .cores = options.cores,
                        .json = options.json,
                        .body = [&](BenchPlace& place) { return bench_ll(place, plan); },
                        .declare_slots = ops::declare_low_latency});
}

int run_afd(const BenchOptions& options) {
  const AfdPlan& plan = options.afd;
  return run_bench_job(
      {.name = "shmoe bench afd",
       .options = fmt::format("--tokens {} --hidden {} --topk {} --dtype {} --seed {} --blocks {}{}{}", plan.tokens,
                              plan.hidden, plan.topk, options.dtype, plan.seed, plan.blocks,
                              plan.expert_ranks ? fmt::format(" --expert-ranks {}", *plan.expert_ranks) : "",
                              options.cores ? fmt::format(" --cores {}", *options.cores) : ""),
       .cores = options.cores,
       .json = options.json,
       .body = [&](BenchPlace& place) { return bench_afd(place, plan); },
       .declare_slots = declare_afd_bench});
}

int run_barrier(const BenchOptions& options) {
  return run_bench_job(
      {.name = "shmoe bench barrier",
       .options = fmt::format("--rounds {} --blocks {}{}", options.barrier.rounds, options.barrier.blocks,
                              options.cores ? fmt::format(" --cores {}", *options.cores) : ""),
       .cores = options.cores,
       .json = options.json,
       .body = [&](BenchPlace& place) { return bench_barrier(place, options.barrier); }});
}

int run_collectives(const BenchOptions& options) {
  const CollectivesPlan& plan = options.collectives;
  return run_bench_job({.name = "shmoe bench collectives",
                        .options = fmt::format("--blocks {} --most-kib {}{}", plan.blocks, plan.most_kib,
                                               options.cores ? fmt::format(" --cores {}", *options.cores) : ""),
                        .cores = options.cores,
                        .json = options.json,
                        .body = [&](BenchPlace& place) { return bench_collectives(place, plan); }});
}

int run_heap(const BenchOptions& options) {
  const std::string name = "shmoe bench heap";
  if (auto alone = check_alone("is one process"); !alone) return refuse(name, alone.error());
  if (auto writable = check_writable(options.json); !writable) return bench_failed(name, writable.error());
  const HeapFigures heap = measure_heap();
  BenchReport report;
  report.rows = {
      {.name = "heap.alloc", .ranks = 1, .ours_us = heap.alloc_us, .verified = heap.sound},
      {.name = "heap.free", .ranks = 1, .ours_us = heap.free_us, .verified = heap.sound},
      {.name = "heap.utilisation", .ranks = 1, .value = heap.utilisation_after, .verified = heap.sound},
      {.name = "heap.utilisation.mixed", .ranks = 1, .value = heap.utilisation_mixed, .verified = heap.sound}};
  report.text = fmt::format(
      "alloc {:.3f} us, free {:.3f} us at 10 000 live blocks\n"
      "utilisation {:.2f} % with the blocks of the mixed scenario, {:.2f} % at its end\n",
      heap.alloc_us, heap.free_us, 100 * heap.utilisation_mixed, 100 * heap.utilisation_after);
  const auto written = write_report(report, name, options.json);
  return written ? 0 : bench_failed(name, written.error());
}

int run_start(const BenchOptions& options) {
  const StartPlan& plan = options.start;
  return run_jobs("shmoe bench start", fmt::format("--ranks {} --repeats {}", plan.ranks, plan.repeats), options, plan,
                  bench_start);
}

int run_diagnose(const BenchOptions& options) {
  const DiagnosePlan& plan = options.diagnose;
  return run_jobs("shmoe bench diagnose",
                  fmt::format("--ranks {} --cores {} --repeats {}", plan.ranks, plan.cores, plan.repeats), options,
                  plan, bench_diagnose);
}

}  // namespace shmoe::apps
