#pragma once
// The benchmarks as commands: what the parser fills in, and the job that each of them runs.

#include <cstdint>
#include <optional>
#include <string>

#include "apps/bench/afd_bench.hpp"
#include "apps/bench/barrier_bench.hpp"
#include "apps/bench/collectives_bench.hpp"
#include "apps/bench/diagnose_bench.hpp"
#include "apps/bench/ep_bench.hpp"
#include "apps/bench/report.hpp"
#include "apps/bench/start_bench.hpp"

namespace shmoe::apps {

/// What the parser fills in.
struct BenchOptions {
  EpPlan ep;
  std::string dtype = "bf16";
  std::int32_t against = 8;
  bool small_pages = false;
  AfdPlan afd;
  std::int64_t compute_us = 0;
  BarrierPlan barrier;
  CollectivesPlan collectives;
  StartPlan start;
  DiagnosePlan diagnose;
  std::optional<std::int32_t> cores;
  JsonTarget json;
};

// Each returns the exit code of `shmoe bench NAME`. Every rank of a job runs it, but for heap, start and diagnose: these
// refuse a launcher.
int run_ep(const BenchOptions& options);
int run_topk(const BenchOptions& options);
int run_int8(const BenchOptions& options);
int run_notes(const BenchOptions& options);
int run_inspection(const BenchOptions& options);
int run_ll(const BenchOptions& options);
int run_afd(const BenchOptions& options);
int run_barrier(const BenchOptions& options);
int run_collectives(const BenchOptions& options);
int run_heap(const BenchOptions& options);
int run_start(const BenchOptions& options);
int run_diagnose(const BenchOptions& options);

}  // namespace shmoe::apps
