#include "apps/bench/bench_job.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "apps/bench/mpi_session.hpp"
#include "apps/bench/pinning.hpp"
#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/command.hpp"
#include "apps/shmoe/machine.hpp"
#include "apps/shmoe/say.hpp"
#include "runtime/config.hpp"

namespace shmoe::apps {
namespace {

/// "SHMOE_COPY=movsb ": what the environment says, but for what a launcher says there.
std::string settings_in_force() {
  std::string words;
  const auto environment = bootstrap::process_environment();
  for (const runtime::Setting& setting : runtime::settings()) {
    const auto value = environment(setting.variable);
    constexpr std::array kNotOurs{"SHMOE_SECRET", "SHMOE_LAUNCHER", "SHMOE_JOB", "SHMOE_RANK", "SHMOE_SIZE"};
    if (value && std::ranges::find(kNotOurs, std::string_view{setting.variable}) == kNotOurs.end()) {
      words += fmt::format("{}={} ", setting.variable, *value);
    }
  }
  return words;
}

/// What runs the same again; how ranks are bound is the launcher's own.
std::string command_of(const BenchJob& job, const bootstrap::Launch& launch) {
  const std::string words = fmt::format("{} {}", job.name, job.options);
  const std::string settings = settings_in_force();
  if (launch.launcher == "none") return settings + words;
  if (launch.launcher == "shmoe") return fmt::format("{}shmoe run -n {} -- {}", settings, launch.size, words);
  return fmt::format("{}mpirun -np {} {}", settings, launch.size, words);
}

Result<std::string> heading_of(runtime::World& world, const bootstrap::Launch& launch) {
  auto pinning = pinning_of(world.all());
  if (!pinning) return pinning;
  return fmt::format("{} of {}, started by {}, profile {}{}\n{}\nhuge pages: {}\n", counted(world.ranks(), "rank"),
                     counted(world.all().cores(), "core"), launch.launcher, name_of(world.config().profile.id),
                     starts_mpi(launch.launcher) ? ", " + MpiSession::library() : "", *pinning, shm_huge_pages());
}

std::string why_alone(const bootstrap::Launch& launch) {
  if (starts_mpi(launch.launcher)) return {};
  return fmt::format("no MPI beside it: {}; with mpirun -np R there is",
                     launch.launcher == "none" ? "no launcher started it"
                                               : fmt::format("the ranks were started by {}", launch.launcher));
}

int told(const BenchJob& job, const Error& error) { return bench_failed(job.name, error); }

Result<int> be_rank(const BenchJob& job, const bootstrap::Launch& launch, runtime::World& world) {
  const Result<void> writable = launch.rank == Rank{0} ? check_writable(job.json) : Result<void>{};
  const auto fault = writable ? std::nullopt : std::optional{writable.error()};
  if (auto ready = agree(world.all(), "report", fault); !ready) return std::move(ready).error();
  std::optional<MpiSession> mpi;
  if (starts_mpi(launch.launcher)) mpi.emplace();
  auto heading = heading_of(world, launch);
  if (!heading) return std::move(heading).error();
  BenchPlace place{world, *std::move(heading), why_alone(launch)};
  const auto report = job.body(place);
  if (!report) return report.error();
  if (mpi) mpi->finish();
  if (auto ended = world.finalize(); !ended) return std::move(ended).error();
  // The others leave with 0 whatever was found: a launcher may end rank 0 as soon as one of them does not.
  if (launch.rank != Rank{0}) return 0;
  if (auto written = write_report(*report, command_of(job, launch), job.json); !written) return written.error();
  return report->verified() ? 0 : 1;
}

/// The error of a rank that leaves in another way than the rest, who are told.
Result<int> be_rank_or_abort(const BenchJob& job, const bootstrap::Launch& launch, runtime::World& world) {
  const auto aborted = [&](Errc code, std::string text) {
    const Error error{.code = code, .context = std::move(text), .where = launch.rank};
    world.abort(error);
    return error;
  };
  try {
    return be_rank(job, launch, world);
  } catch (const ContractViolation& violation) {
    return aborted(Errc::broken_contract, violation.what());
  } catch (const std::bad_alloc&) {
    return aborted(Errc::out_of_memory, "lower --tokens or --hidden, or raise `ulimit -v`");
  } catch (const std::exception& exception) {
    return aborted(Errc::system, fmt::format("rank {}: {}", launch.rank, exception.what()));
  }
}

}  // namespace

int bench_failed(const std::string& name, const Error& error) {
  say("{}: {}", name, to_string(error));
  return exit_code_of(error);
}

int run_bench_job(const BenchJob& job) {
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return told(job, launch.error());
  auto config = runtime::Config::load();
  if (!config) {
    runtime::tell_failed_start(config.error(), [&] { told(job, config.error()); });
    return 1;
  }
  config->communicators = 1;  // as many as they make
  if (job.cores) config->cores = *job.cores;
  config->declare_slots = job.declare_slots;
  config->agreements = {{"options", job.options, "options"}};
  const auto world = runtime::World::create(*config);
  if (!world) {
    runtime::tell_failed_start(world.error(), [&] { told(job, world.error()); });
    return 1;
  }
  const auto code = be_rank_or_abort(job, *launch, **world);
  if (code) return *code;
  (*world)->tell_once(code.error(), [&] { told(job, code.error()); });
  return exit_code_of(code.error());
}

}  // namespace shmoe::apps
