// shmoe inspect: looks at a running job.

#include <filesystem>
#include <memory>

#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/shmoe/command.hpp"
#include "apps/shmoe/inspection.hpp"
#include "shmem/last_words.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kDescription =
    "Shows what every rank and core of a running job does, and who waits for whom.\n\n"
    "  shmoe inspect                     the jobs of this user; of the only one, everything\n"
    "  shmoe inspect shmoe_4872_643f4fae            by name, or by the pid of one of its ranks\n"
    "  shmoe inspect --once --events 20  once, with the last 20 signals and waits\n"
    "  shmoe inspect --slots barrier     with the words of a family of flags, a row a rank\n"
    "  shmoe inspect --save stuck.job    keeps all that can be seen now; `shmoe inspect stuck.job` shows it\n\n"
    "On a terminal the view is renewed twice a second, or --every so many milliseconds, until the job ends or you "
    "press\n"
    "Ctrl-C. It is read from the memory in which the ranks keep their records: nothing is written there, no rank is "
    "stopped or asked.\n\n"
    "How to read it: a core that waits says for which slot, what it expects there, what it sees, and which rank "
    "writes\n"
    "it. Go from there to that rank, and so on: you end at the root of the wait graph, the rank that others wait for "
    "and\n"
    "that waits for nobody. If it runs, it is slow; if it is stopped (T), somebody stopped it; where there is no "
    "root,\n"
    "`shmoe diagnose` asks for a proof that nobody can go on.";

constexpr std::chrono::milliseconds kPeriod{500};  // a view for the eye

struct InspectOptions {
  std::string job;
  std::string save;
  InspectChoice choice;
  std::optional<std::int64_t> every_ms;
  bool once = false;
  bool json = false;
};

/// What fits on the screen.
std::string fitted(const std::string& text) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 2) return text;
  std::size_t end = 0;
  for (int line = 0; line + 1 < size.ws_row; ++line) {
    end = text.find('\n', end);
    if (end == text.npos) return text;
    ++end;
  }
  return text.substr(0, end);
}

int watch(runtime::JobView& job, const InspectOptions& options) {
  const auto period = options.every_ms ? std::chrono::milliseconds{*options.every_ms} : kPeriod;
  while (true) {
    const auto inspection = inspect(job, options.choice);
    if (!inspection) return failed("shmoe inspect", inspection.error());
    fmt::print("\x1b[H\x1b[2J{}", fitted(to_text(*inspection)));
    std::fflush(stdout);
    if (job.ended()) break;
    shmem::wait_until([&] { return false; }, period);
  }
  fmt::print("the job has ended\n");
  return 0;
}

int show_once(runtime::JobView& job, const InspectOptions& options) {
  const auto inspection = inspect(job, options.choice);
  if (!inspection) return failed("shmoe inspect", inspection.error());
  if (options.json) {
    fmt::print("{}\n", to_json(*inspection).dump(2));
  } else {
    fmt::print("{}", to_text(*inspection));
  }
  return 0;
}

int inspect_saved(const InspectOptions& options) {
  if (!options.save.empty()) {
    return failed("shmoe inspect",
                  {.code = Errc::invalid_argument,
                   .context = fmt::format("{} is saved already, --save is for a running job: copy the file with cp",
                                          options.job)});
  }
  const auto view = runtime::JobView::open_saved(options.job);
  return view ? show_once(**view, options) : failed("shmoe inspect", view.error());
}

int inspect_job(const InspectOptions& options) {
  if (std::filesystem::is_regular_file(options.job)) return inspect_saved(options);  // no job has such a name
  const std::vector<runtime::RunningJob> jobs = runtime::running_jobs();
  const bool asks_for_one = !options.save.empty() || !options.choice.slots.empty() || options.choice.events > 0;
  if (options.job.empty() && jobs.size() > 1 && !asks_for_one) {
    if (options.json) fmt::print("{}\n", to_json(jobs).dump(2));
    if (!options.json) fmt::print("{}: name one\n{}", counted(std::ssize(jobs), "job"), to_text(jobs));
    return 0;
  }
  const auto job = runtime::choose_job(jobs, options.job);
  if (!job) return failed("shmoe inspect", job.error());
  const auto view = runtime::JobView::attach(*job, runtime::JobView::Use::look);
  if (!view) return failed("shmoe inspect", view.error());
  if (!options.save.empty()) {
    const Result<void> saved = (*view)->save(options.save);
    return saved ? 0 : failed("shmoe inspect", saved.error());
  }
  const bool once = options.once || options.json || (!options.every_ms && isatty(STDOUT_FILENO) == 0);
  return once ? show_once(**view, options) : watch(**view, options);
}

}  // namespace

void add_inspect(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", kDescription);
  command
      ->add_option("job", options->job,
                   "name of the job, pid of one of its ranks, or a saved file; default the only job")
      ->type_name("JOB");
  command->add_option("--slots", options->choice.slots, "show the words of a slot family: barrier, flag, ...")
      ->type_name("FAMILY");
  command->add_option("--events", options->choice.events, "show the last N events of the job")
      ->check(within<std::uint64_t>(0, 1'000'000))
      ->type_name("N");
  command->add_option("--save", options->save, "write what can be seen now to a file, and show nothing")
      ->type_name("FILE");
  CLI::Option* every =
      command->add_option("--every", options->every_ms, "renew the view so often, also without a terminal")
          ->check(within<std::int64_t>(1, 3'600'000))
          ->type_name("MS");
  command->add_flag("--once", options->once, "look once, as without a terminal")->excludes(every);
  command->add_flag("--json", options->json, "look once, as one JSON object")->excludes(every);
  command->callback([options, &invocation] { invocation.exit_code = inspect_job(*options); });
}

}  // namespace shmoe::apps
