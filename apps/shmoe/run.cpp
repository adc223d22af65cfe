// shmoe run: starts the ranks of any program.

#include <memory>
#include <optional>

#include "apps/shmoe/command.hpp"
#include "apps/shmoe/process_group.hpp"
#include "runtime/fault_plan.hpp"
#include "runtime/link_speeds.hpp"
#include "shmem/layout.hpp"
#include "shmem/segment.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kDescription =
    "Starts N ranks of a program on this machine and stays until all have ended.\n\n"
    "  shmoe run -n 4 -- ./my_program --its-option\n\n"
    "Each is a rank. It finds its number, from 0, in SHMOE_RANK, and N in SHMOE_SIZE; programs of this library look "
    "there.\n"
    "Each line of output carries the rank that wrote it. When a rank is killed or exits non-zero, it is named, the "
    "others\n"
    "get a few seconds to report on their own, then they are ended; the exit code is that of the rank that failed "
    "first,\n"
    "128 + signal for a killed one. The ranks die with the launcher, even if it is killed.";

struct RunOptions {
  GroupPlan plan;
  std::int32_t cores = 0;
  std::vector<std::string> assignments;
  std::optional<std::string> faults;
  std::optional<std::string> links;
  double timeout_s = 0;
  bool no_prefix = false;
};

Result<GroupPlan> plan_of(const RunOptions& options, const std::vector<std::string>& command) {
  GroupPlan plan = options.plan;
  plan.command = command;
  if (command.empty())
    return Error{.code = Errc::invalid_argument, .context = "no program given: shmoe run -n 4 -- PROGRAM"};
  for (const std::string& assignment : options.assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{.code = Errc::invalid_argument,
                   .context = fmt::format("--env '{}' is not NAME=VALUE: give both", assignment)};
    }
    plan.environment.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  if (options.faults) {
    if (const auto faults = runtime::FaultPlan::load(*options.faults); !faults) return faults.error();
    plan.environment.emplace_back("SHMOE_FAULTS", *options.faults);
  }
  if (options.links) {
    if (const auto links = runtime::LinkSpeeds::load(*options.links); !links) return links.error();
    plan.environment.emplace_back("SHMOE_LINKS", *options.links);
  }
  if (options.cores > 0) plan.environment.emplace_back("SHMOE_CORES", std::to_string(options.cores));
  plan.limit = std::chrono::milliseconds{static_cast<std::int64_t>(options.timeout_s * 1000)};
  plan.prefix = !options.no_prefix;
  return plan;
}

int run(const RunOptions& options, const std::vector<std::string>& command) {
  const auto plan = plan_of(options, command);
  if (!plan) return failed("shmoe run", plan.error());
  const auto end = run_group(*plan);
  static_cast<void>(shmem::clean_stale(false));
  return end ? end->code : failed("shmoe run", end.error());
}

}  // namespace

void add_run(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", kDescription);
  command->prefix_command();
  command->add_option("-n,--ranks", options->plan.ranks, "number of ranks")
      ->required()
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command->add_option("--cores", options->cores, "cores of a rank (sets SHMOE_CORES)")
      ->check(CLI::Range(1, static_cast<int>(shmem::kMaxCores)).description(""))
      ->type_name("C");
  command
      ->add_option(
          "--faults", options->faults,
          "faults to inject, one a line (sets SHMOE_FAULTS); apps/11_faults/README.md tells how they are written")
      ->type_name("FILE");
  command
      ->add_option("--links", options->links,
                   "how fast links are, for puts (sets SHMOE_LINKS); shmoe choose --help tells how they are written")
      ->type_name("FILE");
  command->add_option("--env", options->assignments, "NAME=VALUE for all ranks; may be repeated")
      ->expected(1)
      ->take_all()
      ->type_name("NAME=VALUE");
  command->add_option("--timeout", options->timeout_s, "end the job after so many seconds, with exit code 124")
      ->check(within(0.001, 1e6))
      ->type_name("SECONDS");
  command->add_flag("--survive", options->plan.survive,
                    "let the others go on when a rank is killed; exit code: that of the first rank that fails by "
                    "itself, else 0 where one ends well, else the killed rank's");
  command->add_flag("--no-prefix", options->no_prefix, "pass lines on as they are");
  command->callback([options, command, &invocation] {
    std::vector<std::string> words = command->remaining();
    if (!words.empty() && words.front().starts_with("-")) throw CLI::ExtrasError({words.front()});
    words.insert(words.end(), invocation.after_dashes.begin(), invocation.after_dashes.end());
    invocation.exit_code = run(*options, words);
  });
}

}  // namespace shmoe::apps
