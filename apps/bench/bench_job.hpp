#pragma once
// A benchmark that every rank of a job takes part in: meeting, MPI where its launcher started us, and one report.

#include <functional>
#include <optional>
#include <string>

#include "apps/bench/report.hpp"
#include "bootstrap/launch.hpp"
#include "runtime/world.hpp"

namespace shmoe::apps {

/// What a benchmark is given.
struct BenchPlace {
  runtime::World& world;
  std::string heading;  // ranks, launcher, profile, pinning: the same on every rank
  std::string alone;    // why MPI is not there; empty where it is
  [[nodiscard]] bool has_mpi() const { return alone.empty(); }
};

struct BenchJob {
  std::string name;     // "shmoe bench ep"
  std::string options;  // all of them, as one would write them; every rank has the same
  std::optional<std::int32_t> cores;
  JsonTarget json;
  std::function<Result<BenchReport>(BenchPlace&)> body;
  std::function<void(shmem::SlotPlan&, const shmem::BlockMap&)> declare_slots = {};
};

/// Returns the exit code: 0 only where every row is verified.
int run_bench_job(const BenchJob& job);

/// Says what failed and returns the exit code.
int bench_failed(const std::string& name, const Error& error);

}  // namespace shmoe::apps
