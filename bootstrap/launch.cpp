#include "bootstrap/launch.hpp"

#include <cstdlib>

#include <unistd.h>

#include "bootstrap/text.hpp"

namespace shmoe::bootstrap {
namespace {

Error invalid(std::string text) { return Error{Errc::invalid_argument, std::move(text), {}, 0}; }

Result<std::int32_t> number_in(const Environment& environment, std::string_view name, std::int32_t lowest) {
  const auto text = environment(name);
  if (!text) {
    return invalid(fmt::format(
        "{} is not set: the launcher set only a part of its variables: set SHMOE_RANK and SHMOE_SIZE", name));
  }
  const auto value = parse_whole<std::int32_t>(*text);
  if (!value || *value < lowest || *value > kMaxSize) {
    return invalid(fmt::format("{} is {}, which is not {}: give a whole number from {} to {}", name,
                               bootstrap::quoted(*text), value ? "in range" : "a whole number", lowest, kMaxSize));
  }
  return *value;
}

struct Place {
  Rank rank;
  std::int32_t size;
};

Result<Place> place_in(const Environment& environment, std::string_view rank_name, std::string_view size_name) {
  const auto size = number_in(environment, size_name, 1);
  if (!size) return size.error();
  const auto rank = number_in(environment, rank_name, 0);
  if (!rank) return rank.error();
  if (*rank >= *size) {
    return invalid(fmt::format("{} is {} but {} is {}: give every process its own rank from 0 to {}", rank_name, *rank,
                               size_name, *size, *size - 1));
  }
  return Place{Rank{*rank}, *size};
}

Result<Launch> from_variables(const Environment& environment, std::string launcher, std::string_view rank_name,
                              std::string_view size_name) {
  const auto place = place_in(environment, rank_name, size_name);
  if (!place) return place.error();
  return Launch{std::move(launcher), place->rank, place->size, {}, {}, fmt::format("{}, {}", rank_name, size_name)};
}

std::optional<std::string> first_set(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (auto value = environment(name); value && !value->empty()) return value;
  }
  return std::nullopt;
}

Result<Launch> from_explicit(const Environment& environment) {
  if (!environment("SHMOE_SIZE")) return invalid("SHMOE_RANK is set but SHMOE_SIZE is not: set both");
  auto launch =
      from_variables(environment, environment("SHMOE_LAUNCHER").value_or("explicit"), "SHMOE_RANK", "SHMOE_SIZE");
  if (!launch) return launch;
  launch->job_id = launch->size == 1 ? fmt::format("pid-{}", ::getpid()) : "unnamed";
  return launch;
}

Result<Launch> from_open_mpi(const Environment& environment) {
  auto launch = from_variables(environment, "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (!launch) return launch;
  launch->job_id = first_set(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}).value_or("");
  return launch;
}

bool in_slurm_step(const Environment& environment) {
  return environment("SLURM_PROCID") && first_set(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
}

std::string_view slurm_size_name(const Environment& environment) {
  return environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

/// The environment of PMIx has a rank and a namespace, but in general no size.
Result<Launch> from_pmix(const Environment& environment) {
  std::string_view size_name;
  if (environment("PMIX_SIZE")) {
    size_name = "PMIX_SIZE";
  } else if (environment("SHMOE_SIZE")) {
    size_name = "SHMOE_SIZE";
  } else if (in_slurm_step(environment)) {
    size_name = slurm_size_name(environment);
  } else {
    return invalid(fmt::format("PMIX_RANK is {} but nothing tells the number of ranks: set SHMOE_SIZE on every rank",
                               bootstrap::quoted(*environment("PMIX_RANK"))));
  }
  auto launch = from_variables(environment, "pmix", "PMIX_RANK", size_name);
  if (!launch) return launch;
  launch->job_id = first_set(environment, {"PMIX_NAMESPACE"}).value_or("");
  return launch;
}

Result<Launch> from_slurm(const Environment& environment) {
  auto launch = from_variables(environment, "slurm", "SLURM_PROCID", slurm_size_name(environment));
  if (!launch) return launch;
  const auto job = first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  const auto step = first_set(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  if (job) launch->job_id = fmt::format("slurm-{}.{}", *job, *step);
  return launch;
}

/// Hydra, of MPICH and Intel MPI, names no job.
Result<Launch> from_hydra(const Environment& environment) {
  auto launch = from_variables(environment, "hydra", "PMI_RANK", "PMI_SIZE");
  if (launch && launch->size == 1) launch->job_id = fmt::format("pid-{}", ::getpid());
  return launch;
}

Result<Launch> from_nothing(const Environment& environment) {
  Launch launch{"none", Rank{0}, 1, fmt::format("pid-{}", ::getpid()), {}, "no launcher"};
  if (environment("SLURM_PROCID")) launch.found_by = "inside a slurm allocation but not started by srun";
  return launch;
}

Result<Launch> from_other_launcher(const Environment& environment) {
  if (environment("OMPI_COMM_WORLD_RANK") || environment("OMPI_COMM_WORLD_SIZE")) return from_open_mpi(environment);
  if (environment("PMIX_RANK")) return from_pmix(environment);
  if (in_slurm_step(environment)) return from_slurm(environment);
  if (environment("PMI_RANK")) return from_hydra(environment);
  return from_nothing(environment);
}

/// A rank of `shmoe run` that sees the variables of another launcher has been started by it, inside.
Result<void> check_no_launcher_inside(const Environment& environment, const Launch& outer) {
  if (outer.launcher != "shmoe") return {};
  const auto inner = from_other_launcher(environment);
  if (!inner || inner->launcher == "none") return {};
  return invalid(
      fmt::format("rank {} of {} by {} ({}) runs inside rank {} of {} by shmoe run: use one launcher, or unset "
                  "SHMOE_RANK, SHMOE_SIZE and SHMOE_JOB to follow {}",
                  inner->rank, inner->size, inner->launcher, inner->found_by, outer.rank, outer.size, inner->launcher));
}

Result<Launch> from_launcher(const Environment& environment) {
  if (!environment("SHMOE_RANK")) return from_other_launcher(environment);
  auto launch = from_explicit(environment);
  if (!launch) return launch;
  if (auto checked = check_no_launcher_inside(environment, *launch); !checked) return checked.error();
  return launch;
}

Result<void> check_stated_size(const Environment& environment, const Launch& launch) {
  if (!environment("SHMOE_SIZE")) return {};
  const auto stated = number_in(environment, "SHMOE_SIZE", 1);
  if (!stated) return stated.error();
  if (*stated == launch.size) return {};
  if (launch.launcher == "none") {
    return invalid(fmt::format("SHMOE_SIZE is {} but SHMOE_RANK is not set: set both", *stated));
  }
  return invalid(fmt::format("SHMOE_SIZE is {} but {} started {} ranks ({}): unset SHMOE_SIZE", *stated,
                             launch.launcher, launch.size, launch.found_by));
}

Result<void> name_job(const Environment& environment, Launch& launch) {
  if (const auto job = environment("SHMOE_JOB")) {
    if (job->empty()) return invalid("SHMOE_JOB is '': give the job a name or unset it");
    launch.job_id = *job;
  }
  if (launch.job_id.empty()) {
    return invalid(
        fmt::format("{} gave no job id (no PMIX_NAMESPACE, no job variable): set SHMOE_JOB on every rank, to a name "
                    "that no other job has",
                    launch.launcher));
  }
  return {};
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

std::string Launch::description() const {
  return fmt::format("rank {} of {} of job {}, started by {} ({})", rank, size, bootstrap::quoted(job_id),
                     printable(launcher), found_by);
}

Result<Launch> detect_launch(const Environment& environment) {
  auto launch = from_launcher(environment);
  if (!launch) return launch;
  if (auto checked = check_stated_size(environment, *launch); !checked) return checked.error();
  if (auto named = name_job(environment, *launch); !named) return named.error();
  launch->secret = environment("SHMOE_SECRET");
  if (launch->secret && launch->secret->empty()) return invalid("SHMOE_SECRET is '': give a secret or unset it");
  return launch;
}

}  // namespace shmoe::bootstrap
