// shmoe museum: bugs of signal protocols that fail in the way that is written on them.

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/check/campaign.hpp"
#include "apps/museum/exhibit.hpp"
#include "apps/shmoe/command.hpp"
#include "apps/shmoe/file_descriptor.hpp"
#include "apps/shmoe/process_group.hpp"
#include "bootstrap/launch.hpp"
#include "shmem/segment.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kName = "shmoe museum";
constexpr const char* kDescription =
    "Bugs of signal protocols, a small program each, that deadlock or fail in one way.\n\n"
    "  shmoe museum list\n"
    "  shmoe museum explain S1     what goes wrong, and the cure\n"
    "  shmoe museum run S1 S4      runs them and prints each verdict with its proof\n"
    "  shmoe museum run all        and compares each verdict and cause with what is written on the exhibit\n\n"
    "Names are those of the catalogues of hazards: S and F of the zero-buffer path, H of the framework, D of the tile\n"
    "language. Most run in processes: the verdict knows nothing of the exhibit, it looks at waits, words, signals "
    "sent\n"
    "and rounds. Where memory is read or written too early, which most machines hide, the checker tries schedules.\n"
    "Exit code of run: 0 if everything failed as it should, else 1; 128 + signal if told to end.";

/// No setting: whatever fails here does so within a few.
constexpr std::uint64_t kSchedules = 200;
/// Of one exhibit in processes: they end within a second.
constexpr std::chrono::seconds kLimit{60};

struct MuseumOptions {
  std::vector<std::string> names;
  std::int32_t repeat = 1;
  bool json = false;
  std::string report;  // of a rank: where it tells its error
};

/// How a run ended, and what was said about it.
struct Ending {
  std::string outcome;  // "verdict: cause", the name of an error, or "clean"
  std::string report;
};

/// Of an exhibit.
struct Run {
  Ending ending;
  std::optional<int> told = {};  // the signal by which we were told to end
};

std::string read_file(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

/// A file in memory, which the ranks reach by its path. It is gone when we are, however that comes about.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : file_(::memfd_create(name, MFD_CLOEXEC)) {}
  [[nodiscard]] bool is_open() const { return file_.get() >= 0; }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get()); }

 private:
  FileDescriptor file_;
};

/// What the ranks of one run have to say.
struct Reports {
  MemoryFile verdict{"shmoe museum verdict"};
  MemoryFile error{"shmoe museum error"};
};

Ending ending_of(const Reports& reports) {
  const std::string error = read_file(reports.error.path());
  if (error.empty()) return {.outcome = "clean", .report = "no rank failed"};
  const auto line = error.find('\n');
  Ending ending{.outcome = error.substr(0, line), .report = error.substr(line + 1)};
  const auto verdict = nlohmann::json::parse(read_file(reports.verdict.path()), nullptr, false);
  if (verdict.is_discarded()) return ending;
  const auto& causes = verdict["causes"];
  const std::string cause = causes.empty() ? "cause unknown" : causes.front()["cause"].get<std::string>();
  ending.outcome = fmt::format("{}: {}", verdict["verdict"].get<std::string>(), cause);
  return ending;
}

/// Schedules of the checker, until one fails.
Ending check(const Exhibit& exhibit) {
  const runtime::check::Program program{
      .name = "museum." + exhibit.name,
      .what = exhibit.what,
      .shape = [&](const runtime::check::Setting&,
                   runtime::check::Shape& shape) { shape.declare_slots = exhibit.slots; },
      .make = [&](const runtime::check::Setting&) { return exhibit.checked; },
  };
  const runtime::check::Setting setting{
      .ranks = exhibit.ranks, .cores = exhibit.cores, .rounds = 1, .profile = exhibit.profile};
  const Row row = run_campaign(program, setting, {.strategy = "delay2", .budget = {.runs = kSchedules}}, {});
  if (row.verdict.clean()) return {.outcome = "clean", .report = fmt::format("{} schedules, none fails", row.runs)};
  const bool early = same_fault(row.verdict.kind, runtime::VerdictKind::unordered_read);
  const auto kind = early ? runtime::VerdictKind::unordered_read : row.verdict.kind;
  std::string outcome{name_of(kind)};
  if (kind == runtime::VerdictKind::failed) {  // an error, which has a name of its own
    if (row.verdict.text.starts_with(name_of(Errc::mismatch))) outcome = name_of(Errc::mismatch);
  }
  return {.outcome = std::move(outcome), .report = row.story};
}

Result<Run> run_once(const Exhibit& exhibit) {
  if (exhibit.checked) return Run{.ending = check(exhibit)};
  const Reports reports;
  if (!reports.verdict.is_open() || !reports.error.is_open()) {
    return Error{
        .code = Errc::system, .context = "no file for the report (memfd_create): raise `ulimit -n`", .sys = errno};
  }
  const GroupPlan plan{.name = kName,
                       .ranks = exhibit.ranks,
                       .command = {"/proc/self/exe", "museum", "run", exhibit.name, "--report", reports.error.path()},
                       .environment = {{"SHMOE_VERDICT", reports.verdict.path()}},
                       .prefix = false,
                       .report_exits = false,
                       .limit = kLimit};
  const Result<GroupEnd> end = run_group(plan);
  static_cast<void>(shmem::clean_stale(false));
  if (!end) return end.error();
  if (end->code == kExitTimeout) {
    const std::string late = fmt::format("did not end within {} s", kLimit.count());
    return Run{.ending = {.outcome = late, .report = fmt::format("{} {}", exhibit.name, late)}, .told = end->told};
  }
  return Run{.ending = ending_of(reports), .told = end->told};
}

Result<runtime::Config> config_of(const Exhibit& exhibit, Rank rank) {
  Result<runtime::Config> config = runtime::Config::load();
  if (!config) return config;
  config->cores = exhibit.cores;
  config->profile = exhibit.profile;
  config->strict = exhibit.strict;
  config->communicators = exhibit.communicators;
  config->heap = Bytes{2U << 20};
  config->ipc_data = Bytes{0};
  // Whatever the environment says: an exhibit ends in one way.
  config->prove = true;
  config->wait_limit = std::chrono::milliseconds{0};
  config->weak_seed = 0;
  Result<runtime::FaultPlan> faults = runtime::FaultPlan::parse(exhibit.faults, "exhibit " + exhibit.name);
  if (!faults) return std::move(faults).error();
  config->faults = *std::move(faults);
  config->declare_slots = exhibit.slots;
  if (exhibit.settings) exhibit.settings(rank, *config);
  return config;
}

int be_rank(const Exhibit& exhibit, Rank rank, const std::string& file) {
  const auto report = [&](const Error& error) {
    std::ofstream{file} << name_of(error.code) << '\n' << to_string(error) << '\n';
  };
  const auto config = config_of(exhibit, rank);
  if (!config) return failed(kName, config.error());
  const auto world = runtime::World::create(*config);
  if (!world) {
    runtime::tell_failed_start(world.error(), [&] { report(world.error()); });
    return exit_code_of(world.error());
  }
  Result<void> done = exhibit.run(**world);
  if (done && exhibit.finalize) done = (*world)->finalize();
  if (done) return 0;
  (*world)->tell_once(done.error(), [&] { report(done.error()); });
  return exit_code_of(done.error());
}

bool is_all(const MuseumOptions& options) { return std::ranges::count(options.names, "all") > 0; }

/// In the order of the catalogue.
std::vector<Exhibit> chosen(const MuseumOptions& options) {
  std::vector<Exhibit> all = collection();
  if (!is_all(options)) {
    std::erase_if(all, [&](const Exhibit& exhibit) { return std::ranges::count(options.names, exhibit.name) == 0; });
  }
  return all;
}

/// Why there is no such exhibit; nothing where there is one.
std::optional<std::string> why_missing(const std::string& name) {
  const std::vector<LeftOut> missing = left_out();
  if (const auto found = std::ranges::find(missing, name, &LeftOut::name); found != missing.end()) return found->why;
  return std::nullopt;
}

/// The first name that is no exhibit's is told, or nothing.
bool all_exist(const MuseumOptions& options) {
  const std::vector<Exhibit> all = collection();
  for (const std::string& name : options.names) {
    if (name == "all" || std::ranges::find(all, name, &Exhibit::name) != all.end()) continue;
    const auto why = why_missing(name);
    say("{}: there is no exhibit '{}'{}; see shmoe museum list", kName, name, why ? ": " + *why : "");
    return false;
  }
  return true;
}

/// Of all runs so far.
struct Tour {
  std::int32_t right = 0;   // failed as they should
  std::optional<int> told;  // as of Run
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
};

Result<void> run_exhibit(const Exhibit& exhibit, const MuseumOptions& options, Tour& tour) {
  for (std::int32_t i = 0; i < options.repeat; ++i) {
    const Result<Run> run = run_once(exhibit);
    if (!run) return run.error();
    tour.told = run->told;
    if (tour.told) return {};
    const Ending& ending = run->ending;
    const bool as_expected = ending.outcome == exhibit.expected;
    tour.right += as_expected ? 1 : 0;
    tour.rows.push_back({{"exhibit", exhibit.name},
                         {"expected", exhibit.expected},
                         {"found", ending.outcome},
                         {"as_expected", as_expected},
                         {"report", ending.report}});
    if (options.json) continue;
    if (!is_all(options) || !as_expected) fmt::print("{}\n", ending.report);
    fmt::print("{:<6}{:<10}{}{}\n", exhibit.name, as_expected ? "as shown" : "DIFFERS", ending.outcome,
               as_expected ? "" : fmt::format("; expected {}", exhibit.expected));
    std::fflush(stdout);
  }
  return {};
}

int run(const MuseumOptions& options) {
  if (!all_exist(options)) return 1;
  const std::vector<Exhibit> exhibits = chosen(options);
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return failed(kName, launch.error());
  if (launch->launcher != "none" && options.report.empty()) {
    return failed(kName,
                  {.code = Errc::invalid_argument,
                   .context = fmt::format("it starts the ranks itself, but this one was started by {}: run it alone",
                                          launch->launcher)});
  }
  if (launch->launcher != "none") return be_rank(exhibits.front(), launch->rank, options.report);
  Tour tour;
  for (const Exhibit& exhibit : exhibits) {
    if (const Result<void> done = run_exhibit(exhibit, options, tour); !done) return failed(kName, done.error());
    if (tour.told) return 128 + *tour.told;
  }
  const auto runs = static_cast<std::int32_t>(exhibits.size()) * options.repeat;
  if (options.json) fmt::print("{}\n", nlohmann::ordered_json{{"schema", 1}, {"runs", tour.rows}}.dump(2));
  if (!options.json && runs > 1) fmt::print("{} of {} failed as they should\n", tour.right, runs);
  return tour.right == runs ? 0 : 1;
}

int list(const MuseumOptions& options) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Exhibit& exhibit : collection()) {
    rows.push_back({{"exhibit", exhibit.name}, {"what", exhibit.what}, {"expected", exhibit.expected}});
    if (!options.json) fmt::print("{:<6}{:<48}{}\n", exhibit.name, exhibit.expected, exhibit.what);
  }
  if (options.json) fmt::print("{}\n", nlohmann::ordered_json{{"schema", 1}, {"exhibits", rows}}.dump(2));
  return 0;
}

/// Broken at spaces, for a terminal.
std::string wrapped(std::string text) {
  constexpr std::size_t kWidth = 100;
  for (std::size_t begin = 0; begin + kWidth < text.size();) {
    const auto space = text.rfind(' ', begin + kWidth);
    if (space == std::string::npos || space <= begin) break;
    text[space] = '\n';
    begin = space + 1;
  }
  return text;
}

int explain(const MuseumOptions& options) {
  const bool left_out = options.names.size() == 1 && why_missing(options.names.front());
  if (left_out) {
    fmt::print("{}: left out\n\n{}\n", options.names.front(), wrapped(*why_missing(options.names.front())));
    return 0;
  }
  if (!all_exist(options)) return 1;
  const std::vector<Exhibit> exhibits = chosen(options);
  for (const Exhibit& exhibit : exhibits) {
    fmt::print("{}: {}\nverdict: {}\n{} rank{}, {} core{} each, profile {}, {}\n", exhibit.name, exhibit.what,
               exhibit.expected, exhibit.ranks, exhibit.ranks == 1 ? "" : "s", exhibit.cores,
               exhibit.cores == 1 ? "" : "s", name_of(exhibit.profile.id),
               exhibit.checked ? "in the checker" : "in processes");
    if (!exhibit.faults.empty()) fmt::print("fault: {}\n", exhibit.faults);
    fmt::print("\n{}\n\n", wrapped(exhibit.story));
  }
  fmt::print("see it fail: shmoe museum run {}\n", fmt::join(options.names, " "));
  return 0;
}

/// In any case.
void add_name(CLI::App& command, MuseumOptions& options) {
  const auto as_listed = [](std::string name) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name == "ALL" ? std::string("all") : name;
  };
  command.add_option("EXHIBIT", options.names, "names as in `shmoe museum list`, or all")
      ->transform(as_listed, "")
      ->required()
      ->type_name("NAME...|all");
}

}  // namespace

void add_museum(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<MuseumOptions>();
  CLI::App* command = app.add_subcommand("museum", kDescription);
  command->require_subcommand(1);
  CLI::App* list_command =
      command->add_subcommand("list", "Names every exhibit, with the verdict and cause that it shows.");
  list_command->add_flag("--json", options->json, "as one JSON object");
  list_command->callback([=, &invocation] { invocation.exit_code = list(*options); });
  CLI::App* run_command =
      command->add_subcommand("run",
                              "Runs exhibits and compares each verdict and cause with what is written on it.\n\n"
                              "  shmoe museum run S1 S4\n  shmoe museum run all");
  add_name(*run_command, *options);
  run_command->add_option("--repeat", options->repeat, "how often each runs, default 1")
      ->check(within<std::int32_t>(1, 1000))
      ->type_name("N");
  run_command->add_flag("--json", options->json, "as one JSON object");
  run_command->add_option("--report", options->report)->group("");
  run_command->callback([=, &invocation] { invocation.exit_code = run(*options); });
  CLI::App* explain_command = command->add_subcommand(
      "explain", "Tells what goes wrong in an exhibit, and the cure.\n\n  shmoe museum explain S1");
  add_name(*explain_command, *options);
  explain_command->callback([=, &invocation] { invocation.exit_code = explain(*options); });
}

}  // namespace shmoe::apps
