#include "bootstrap/launch.hpp"

#include <doctest/doctest.h>

#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using test::environment_of;
using Values = std::map<std::string, std::string, std::less<>>;

Values with(Values values, const Values& more) {
  for (const auto& [name, value] : more) values.insert_or_assign(name, value);
  return values;
}

// As mpirun of Open MPI 4.1.4 sets them for rank 1 of 2.
const Values kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"OMPI_MCA_ess_base_jobid", "2100887553"},
                      {"OMPI_UNIVERSE_SIZE", "2"},
                      {"PMIX_NAMESPACE", "2100887553"},
                      {"PMIX_RANK", "1"},
                      {"PMIX_ID", "2100887553.1"},
                      {"PMIX_VERSION", "4.2.2rc2"}};

// As a PMIx server sets them; there is no size among them.
const Values kPmix{{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "prterun-host-77@1"}, {"PMIX_SERVER_URI41", "x"}};

// As srun sets them for task 3 of 4.
const Values kSlurm{{"SLURM_PROCID", "3"},   {"SLURM_NTASKS", "4"},  {"SLURM_STEP_NUM_TASKS", "4"},
                    {"SLURM_JOB_ID", "812"}, {"SLURM_STEP_ID", "1"}, {"SLURM_LOCALID", "3"},
                    {"SLURM_NODEID", "0"}};

// The whole SLURM environment of task 1 of `srun -n 2`, as slurm-wlm 22.05.8 sets it.
const Values kSrun{{"SLURMD_NODENAME", "vm"},
                   {"SLURM_CLUSTER_NAME", "test"},
                   {"SLURM_CONF", "/etc/slurm/slurm.conf"},
                   {"SLURM_CPUS_ON_NODE", "2"},
                   {"SLURM_GTIDS", "0,1"},
                   {"SLURM_JOBID", "4"},
                   {"SLURM_JOB_CPUS_PER_NODE", "2"},
                   {"SLURM_JOB_GID", "0"},
                   {"SLURM_JOB_ID", "4"},
                   {"SLURM_JOB_NAME", "sh"},
                   {"SLURM_JOB_NODELIST", "vm"},
                   {"SLURM_JOB_NUM_NODES", "1"},
                   {"SLURM_JOB_PARTITION", "all"},
                   {"SLURM_JOB_UID", "0"},
                   {"SLURM_JOB_USER", "user"},
                   {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"},
                   {"SLURM_LOCALID", "1"},
                   {"SLURM_NNODES", "1"},
                   {"SLURM_NODEID", "0"},
                   {"SLURM_NODELIST", "vm"},
                   {"SLURM_NPROCS", "2"},
                   {"SLURM_NTASKS", "2"},
                   {"SLURM_PRIO_PROCESS", "0"},
                   {"SLURM_PROCID", "1"},
                   {"SLURM_SRUN_COMM_HOST", "127.0.0.1"},
                   {"SLURM_SRUN_COMM_PORT", "42983"},
                   {"SLURM_STEPID", "0"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_STEP_LAUNCHER_PORT", "42983"},
                   {"SLURM_STEP_NODELIST", "vm"},
                   {"SLURM_STEP_NUM_NODES", "1"},
                   {"SLURM_STEP_NUM_TASKS", "2"},
                   {"SLURM_STEP_TASKS_PER_NODE", "2"},
                   {"SLURM_SUBMIT_DIR", "/tmp"},
                   {"SLURM_SUBMIT_HOST", "vm"},
                   {"SLURM_TASKS_PER_NODE", "2"},
                   {"SLURM_TASK_PID", "14097"},
                   {"SLURM_TOPOLOGY_ADDR", "vm"},
                   {"SLURM_TOPOLOGY_ADDR_PATTERN", "node"},
                   {"SLURM_UMASK", "0022"},
                   {"SLURM_WORKING_CLUSTER", "test:127.0.0.1:6817:9728:109"}};

std::string error_of(const Values& values) {
  const auto launch = detect_launch(environment_of(values));
  return launch ? "no error" : launch.error().context;
}

}  // namespace

TEST_CASE("each launcher is recognised by its environment") {
  struct Case {
    Values values;
    std::string launcher;
    int rank;
    int size;
    std::string job;
  };
  const Case cases[] = {
      {{{"SHMOE_RANK", "5"}, {"SHMOE_SIZE", "8"}, {"SHMOE_JOB", "j"}}, "explicit", 5, 8, "j"},
      {{{"SHMOE_RANK", "0"}, {"SHMOE_SIZE", "8"}, {"SHMOE_JOB", "j"}, {"SHMOE_LAUNCHER", "shmoe"}}, "shmoe", 0, 8, "j"},
      {{{"SHMOE_RANK", "1"}, {"SHMOE_SIZE", "2"}}, "explicit", 1, 2, "unnamed"},
      {kOpenMpi, "openmpi", 1, 2, "2100887553"},
      {with(kOpenMpi, {{"PMIX_NAMESPACE", ""}}), "openmpi", 1, 2, "2100887553"},
      {with(kOpenMpi, {{"SHMOE_JOB", "mine"}, {"SHMOE_SIZE", "2"}}), "openmpi", 1, 2, "mine"},
      {with(kPmix, {{"SHMOE_SIZE", "4"}}), "pmix", 2, 4, "prterun-host-77@1"},
      {with(kPmix, {{"PMIX_SIZE", "6"}}), "pmix", 2, 6, "prterun-host-77@1"},
      {with(kSlurm, kPmix), "pmix", 2, 4, "prterun-host-77@1"},
      {kSrun, "slurm", 1, 2, "slurm-4.0"},
      {kSlurm, "slurm", 3, 4, "slurm-812.1"},
      {{{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"SHMOE_JOB", "mine"}}, "hydra", 2, 3, "mine"},
      {with(kSrun, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "slurm", 1, 2, "slurm-4.0"},
      // What is set by hand wins, and the inner launcher: mpirun in a Slurm job.
      {with(kOpenMpi, {{"SHMOE_RANK", "3"}, {"SHMOE_SIZE", "4"}, {"SHMOE_JOB", "j"}}), "explicit", 3, 4, "j"},
      {with(kSlurm, kOpenMpi), "openmpi", 1, 2, "2100887553"},
  };
  for (const auto& expected : cases) {
    const auto launch = detect_launch(environment_of(expected.values));
    REQUIRE_MESSAGE(launch.has_value(), (launch ? "" : to_string(launch.error())));
    CHECK(launch->launcher == expected.launcher);
    CHECK(launch->rank == Rank{expected.rank});
    CHECK(launch->size == expected.size);
    CHECK(launch->job_id == expected.job);
  }
}

TEST_CASE("another launcher inside of shmoe run is named with what to do") {
  const Values run{{"SHMOE_RANK", "3"}, {"SHMOE_SIZE", "4"}, {"SHMOE_JOB", "j"}, {"SHMOE_LAUNCHER", "shmoe"}};
  CHECK(error_of(with(kOpenMpi, run)) ==
        "rank 1 of 2 by openmpi (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE) runs inside rank 3 of 4 by shmoe run: use "
        "one launcher, or unset SHMOE_RANK, SHMOE_SIZE and SHMOE_JOB to follow openmpi");
  CHECK(error_of(with(kPmix, run)).find("rank 2 of 4 by pmix") == 0);
  CHECK(error_of(with(kSrun, run)).find("rank 1 of 2 by slurm") == 0);
  CHECK(error_of(with(kSlurm, run)).find("runs inside rank 3 of 4") != std::string::npos);  // also in the same place
}

TEST_CASE("without a launcher there is one rank, with a job of its own") {
  const auto launch = detect_launch(environment_of({}));
  REQUIRE(launch.has_value());
  CHECK(launch->launcher == "none");
  CHECK(launch->rank == Rank{0});
  CHECK(launch->size == 1);
  CHECK(launch->job_id == fmt::format("pid-{}", ::getpid()));
}

TEST_CASE("a batch script of slurm is not a step of it") {
  const auto launch =
      detect_launch(environment_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "8"}}));
  REQUIRE(launch.has_value());
  CHECK(launch->size == 1);
  CHECK(launch->description().find("not started by srun") != std::string::npos);
}

TEST_CASE("the description says who, where and how it is known") {
  const auto launch = detect_launch(environment_of(kOpenMpi));
  REQUIRE(launch.has_value());
  CHECK(launch->description() ==
        "rank 1 of 2 of job '2100887553', started by openmpi (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)");
}

TEST_CASE("the secret is taken along and never described") {
  const auto launch = detect_launch(environment_of(with(kOpenMpi, {{"SHMOE_SECRET", "hush"}})));
  REQUIRE(launch.has_value());
  CHECK(launch->secret == "hush");
  CHECK(launch->description().find("hush") == std::string::npos);
}

TEST_CASE("a wrong value is an error that names the variable and the value") {
  struct Case {
    Values values;
    std::string variable;
    std::string value;
  };
  const auto places = [](std::string rank, std::string size) {
    return Values{{"SHMOE_RANK", std::move(rank)}, {"SHMOE_SIZE", std::move(size)}};
  };
  const Case cases[] = {
      {places("4", "4"), "SHMOE_RANK", "4"},
      {places("-1", "4"), "SHMOE_RANK", "-1"},
      {places("", "4"), "SHMOE_RANK", "''"},
      {places("1x", "4"), "SHMOE_RANK", "1x"},
      {places("+1", "4"), "SHMOE_RANK", "+1"},
      {places(" 1", "4"), "SHMOE_RANK", " 1"},
      {places("0x1", "4"), "SHMOE_RANK", "0x1"},
      {places("1", "0"), "SHMOE_SIZE", "0"},
      {places("1", "-4"), "SHMOE_SIZE", "-4"},
      {places("1", "4.0"), "SHMOE_SIZE", "4.0"},
      {places("1", "99999999999999999999"), "SHMOE_SIZE", "99999999999999999999"},
      {places("1", "2147483647"), "SHMOE_SIZE", "2147483647"},
      {{{"SHMOE_RANK", "1"}}, "SHMOE_SIZE", "not"},
      {{{"SHMOE_SIZE", "4"}}, "SHMOE_RANK", "not"},
      {{{"SHMOE_RANK", "1"}, {"SHMOE_SIZE", "4"}, {"SHMOE_JOB", ""}}, "SHMOE_JOB", "''"},
      {{{"SHMOE_RANK", "1"}, {"SHMOE_SIZE", "4"}, {"SHMOE_SECRET", ""}}, "SHMOE_SECRET", "''"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "2"}}), "OMPI_COMM_WORLD_RANK", "2"},
      {with(kOpenMpi, {{"SHMOE_SIZE", "3"}}), "SHMOE_SIZE", "3"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_NAMESPACE", "n"}}, "OMPI_COMM_WORLD_SIZE", "not set"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, "SHMOE_JOB", "no job id"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "SHMOE_JOB", "hydra gave no job id"},
      {kPmix, "SHMOE_SIZE", "set SHMOE_SIZE"},
      {with(kPmix, {{"SHMOE_SIZE", "2"}}), "PMIX_RANK", "2"},
      {with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "3"}}), "SLURM_PROCID", "3"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "1"}}, "SLURM_NTASKS", "not set"},
  };
  for (const auto& wrong : cases) {
    const std::string text = error_of(wrong.values);
    INFO(text);
    CHECK(text.find(wrong.variable) != std::string::npos);
    CHECK(text.find(wrong.value) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  }
}

}  // namespace shmoe::bootstrap
