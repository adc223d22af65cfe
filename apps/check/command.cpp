#include "apps/check/command.hpp"

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "apps/check/help.hpp"
#include "apps/check/recordings.hpp"
#include "apps/check/report.hpp"
#include "apps/check/usage_fault.hpp"
#include "apps/shmoe/say.hpp"

namespace shmoe::apps {
namespace {

using runtime::check::Program;
using runtime::check::Setting;

// Enough for every program of a few steps, in a few seconds.
constexpr std::uint64_t kUsualRuns = 20'000;
// What ends a bounded strategy is its bound, and what ends a timed one is its time.
constexpr std::uint64_t kManyRuns = 100'000'000;

struct RunOptions {
  std::vector<std::string> names;
  std::optional<std::int32_t> ranks, cores, rounds;
  std::optional<std::string> profile;
  bool no_views = false;
  bool strong = false;
  std::optional<std::uint64_t> first_round;
  std::optional<std::uint64_t> runs;
  std::optional<double> seconds;
  Campaign campaign;
  std::optional<std::string> json;  // a file, or "-"
};

/// What all commands of one App share.
struct Shared {
  std::vector<Program> programs;
  CheckCommand command;
};
using SharedPtr = std::shared_ptr<const Shared>;

std::string describe(const char* text, const Shared& shared) {
  return fmt::format(fmt::runtime(text), shared.command.name);
}

int refuse(const Shared& shared, const Error& error) {
  say("{}: {}", shared.command.name, error.context);
  return kExitUsage;
}

/// With "all", a program that is there to fail keeps its own world: in another one its fault may not show.
Setting setting_of(const Program& program, const RunOptions& options) {
  Setting setting = program.usual;
  const bool named = std::ranges::count(options.names, program.name) > 0;
  if (program.expected != runtime::VerdictKind::clean && !named) return setting;
  setting.ranks = options.ranks.value_or(setting.ranks);
  setting.cores = options.cores.value_or(setting.cores);
  setting.rounds = options.rounds.value_or(setting.rounds);
  if (options.profile) setting.profile = *find_profile(*options.profile);
  if (options.no_views) setting.views = false;
  if (options.strong) setting.weak = false;
  setting.first_round = options.first_round.value_or(setting.first_round);
  return setting;
}

Campaign campaign_of(const RunOptions& options) {
  Campaign campaign = options.campaign;
  const bool bounded = campaign.strategy.starts_with("delay") || campaign.strategy.starts_with("preempt");
  campaign.budget.runs = options.runs.value_or(bounded || options.seconds ? kManyRuns : kUsualRuns);
  if (options.seconds)
    campaign.budget.time = std::chrono::milliseconds{static_cast<std::int64_t>(*options.seconds * 1e3)};
  return campaign;
}

Result<std::vector<const Program*>> check_before_start(const Shared& shared, const RunOptions& options) {
  if (auto strategy = check_strategy(options.campaign.strategy); !strategy) return std::move(strategy).error();
  auto selected = select_programs(shared.programs, options.names);
  if (!selected || !options.json || *options.json == "-") return selected;
  if (std::ofstream{*options.json, std::ios::app}) return selected;
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("cannot write {}: give --json a file that can be written", *options.json)};
}

Result<void> write_json(const std::string& file, const std::string& json) {
  if (file == "-") {
    fmt::print("{}", json);
    return {};
  }
  std::ofstream out{file};
  out << json << std::flush;
  if (out) return {};
  return Error{.code = Errc::io,
               .context = fmt::format("cannot write {}: give --json a file that can be written", file)};
}

int run(const Shared& shared, const RunOptions& options) {
  const auto selected = check_before_start(shared, options);
  if (!selected) return refuse(shared, selected.error());
  const Campaign campaign = campaign_of(options);
  const bool quiet = options.json == "-";
  const auto tell = [quiet](const std::string& text) {
    if (quiet) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  ProgressLine progress;
  std::vector<Row> rows;
  tell(header_text());
  for (const Program* program : *selected) {
    progress.restart();
    rows.push_back(run_campaign(*program, setting_of(*program, options), campaign,
                                [&](const auto& now) { progress(program->name, now); }));
    progress.clear();
    tell(to_text(rows.back()));
  }
  for (const Row& row : rows) {
    if (!is_good(row)) tell(failure_text(row, campaign, shared.command.name));
  }
  tell(summary_text(rows, campaign));
  if (options.json) {
    const std::string json = to_json(rows, campaign, shared.command.name).dump(2) + '\n';
    if (auto written = write_json(*options.json, json); !written) {
      say("{}: {}", shared.command.name, written.error().context);
      return 1;
    }
  }
  return std::ranges::all_of(rows, is_good) ? 0 : 1;
}

int list(const Shared& shared) {
  for (const Program& program : shared.programs) {
    const bool fails = program.expected != runtime::VerdictKind::clean;
    fmt::print("{:<28} {:<24} {}{}\n", program.name, to_text(program.usual), program.what,
               fails ? fmt::format("; ends with: {}", name_of(program.expected)) : "");
  }
  return 0;
}

int tell_recording(const Shared& shared, const Result<Replayed>& replayed, bool may_fail) {
  if (!replayed) return refuse(shared, replayed.error());
  fmt::print("{}", replayed->text);
  return may_fail && replayed->fails ? 1 : 0;
}

void add_world_options(CLI::App& run, RunOptions& options) {
  std::vector<std::string> profiles;
  for (const Profile& profile : kProfiles) profiles.emplace_back(name_of(profile.id));
  const auto range = [](auto low, auto high) { return CLI::Range(low, high).description(""); };
  run.add_option("--ranks", options.ranks, "ranks of the world")->check(range(1, kMostRanks))->type_name("R");
  run.add_option("--cores", options.cores, "cores of a rank")
      ->check(range(1, static_cast<int>(shmem::kMaxCores)))
      ->type_name("C");
  run.add_option("--rounds", options.rounds, "how often the body repeats; bugs of reuse need 3")
      ->check(range(1, runtime::check::kMostRounds))
      ->type_name("N");
  run.add_option("--profile", options.profile, "protocol: safe, or as published")
      ->check(CLI::IsMember(profiles).description(""))
      ->type_name("NAME");
  run.add_flag("--no-views", options.no_views, "other ranks' memory cannot be mapped: rows are copied");
  run.add_flag("--strong", options.strong, "what is sent lands at once: shows what that would hide");
  run.add_option("--from", options.first_round, "the counters of rounds start here, as near their wrap")
      ->type_name("ROUND");
}

void add_search_options(CLI::App& run, RunOptions& options) {
  run.add_option("--strategy", options.campaign.strategy,
                 "portfolio (random, then pct1 to pct3), random, pct1..9, delay0..9, preempt0..9; default portfolio")
      ->type_name("NAME");
  run.add_option("--runs", options.runs,
                 fmt::format("most schedules of a program, default {}; bounded ones: no limit", kUsualRuns))
      ->check(CLI::Range(std::uint64_t{1}, kManyRuns).description(""))
      ->type_name("N");
  run.add_option("--seed", options.campaign.seed, "of random and pct, default 1")->type_name("S");
  run.add_option("--time", options.seconds, "most seconds for each program")
      ->check(CLI::Range(0.001, 1e6).description(""))
      ->type_name("SECONDS");
  run.add_option("--json", options.json, "the rows as JSON to a file, or with - to standard output instead")
      ->type_name("FILE");
}

void add_run(CLI::App& app, const SharedPtr& shared) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", describe(detail::kRun, *shared));
  command->add_option("program", options->names, "programs by name, or all")->required()->type_name("NAME...|all");
  add_world_options(*command, *options);
  add_search_options(*command, *options);
  command->callback([options, shared] { *shared->command.exit_code = run(*shared, *options); });
}

using OnText = std::function<Result<Replayed>(const std::string&)>;

CLI::App* add_on_text(CLI::App& app, const SharedPtr& shared, const char* name, const char* description, bool may_fail,
                      const OnText& act) {
  auto text = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(name, description);
  command->add_option("string", *text, "as printed by run: shmoe1:PROGRAM:WORLD:CHOICES")
      ->required()
      ->type_name("STRING");
  command->callback([=] { *shared->command.exit_code = tell_recording(*shared, act(*text), may_fail); });
  return command;
}

}  // namespace

void add_check_command(CLI::App& app, Programs programs, const CheckCommand& command) {
  const auto shared = std::make_shared<const Shared>(Shared{{programs.begin(), programs.end()}, command});
  app.description(describe(detail::kCheck, *shared));
  app.require_subcommand(1);
  app.add_subcommand("list", detail::kList)->callback([shared] { *shared->command.exit_code = list(*shared); });
  add_run(app, shared);
  auto detail = std::make_shared<Detail>(Detail::verdict);
  CLI::App* replay = add_on_text(
      app, shared, "replay", detail::kReplay, true,
      [shared, detail](const std::string& text) { return replay_recording(shared->programs, text, *detail); });
  auto* story = replay->add_flag_function(
      "--story", [detail](std::int64_t) { *detail = Detail::story; }, "every step before the verdict");
  replay
      ->add_flag_function(
          "--json", [detail](std::int64_t) { *detail = Detail::json; }, "steps and verdict as JSON, for viewers")
      ->excludes(story);
  add_on_text(app, shared, "shrink", detail::kShrink, false,
              [shared](const std::string& text) { return shrink_recording(shared->programs, text); });
  add_on_text(app, shared, "explain", detail::kExplain, false,
              [shared](const std::string& text) { return explain_recording(shared->programs, text); });
  app.footer(detail::kGuarantees);  // at last, because commands take over the one of their App
}

int check_main(int argc, char** argv, const std::string& name, Programs programs) {
  int exit_code = 0;
  CLI::App app{"", name};
  add_check_command(app, programs, {.name = name, .exit_code = &exit_code});
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? name : name + ' ' + chosen.front()->get_name();
    say("{}: {}; see {} --help", command, usage_fault(chosen.empty() ? app : *chosen.front(), error), command);
    return kExitUsage;
  } catch (const std::exception& error) {
    say("{}: {}", name, error.what());
    return 1;
  }
  return exit_code;
}

}  // namespace shmoe::apps
