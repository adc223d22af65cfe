// The command line of shmoe.

#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "apps/check/command.hpp"
#include "apps/check/usage_fault.hpp"
#include "apps/shmoe/command.hpp"
#include "runtime/config.hpp"
#include "runtime/telling.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kVersion = "shmoe " SHMOE_VERSION;
constexpr const char* kDescription =
    "shmoe: mixture-of-experts communication on one Linux machine. Every rank is a process with a shared segment, "
    "every\n"
    "AI core a thread; operators synchronise by real flags in that memory.\n\n"
    "  shmoe moe --ranks 8            dispatch, experts, combine; timed and checked to the bit\n"
    "  shmoe run -n 4 -- ./program    start the ranks of any program\n"
    "  shmoe inspect                  what every rank of a running job does\n"
    "  shmoe info --layout            where everything lies in a rank's memory\n"
    "  shmoe check run all            search schedules for deadlocks and races\n"
    "  shmoe museum run all           bugs of signal protocols, each with its verdict and cause\n"
    "  mpirun -np 2 shmoe bench ep    how fast, beside MPI and the limits of the machine\n"
    "  shmoe moe --help               more about one command\n\n"
    "New to this? The lessons begin with apps/01_notify_wait/README.md of the sources; doc/terms.md has the words "
    "(rank, "
    "core,\n"
    "slot, put, fence, dispatch, ...) in a sentence each.";

/// What stands behind the first "--" of `shmoe run`; the program's options are none of ours.
std::vector<std::string> split_dashes(std::vector<std::string>& words) {
  if (words.size() < 2 || words[1] != "run") return {};
  const auto dashes = std::ranges::find(words, "--");
  if (dashes == words.end()) return {};
  std::vector<std::string> behind(dashes + 1, words.end());
  words.erase(dashes, words.end());
  return behind;
}

/// In the list of commands only the first line of each description; of a command that starts a program, how.
class ShortCommands : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_prefix_command()) usage.insert(usage.find_last_not_of('\n') + 1, " -- PROGRAM [ARGS]");
    return '\n' + usage;
  }
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string description = command->get_description();
    return fmt::format("  {:<9}{}\n", command->get_name(), description.substr(0, description.find('\n')));
  }
};

/// "; did you mean --steps?" where the parser knew a word and an option starts with it or is its start.
std::string suggestion(const CLI::App& command, std::string_view fault) {
  const auto at = fault.find("--");
  if (at == std::string_view::npos) return {};
  const std::string_view word = fault.substr(at, fault.find_first_of(" =,]", at) - at);
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (word.size() > 3 && name != word && (name.starts_with(word) || word.starts_with(name))) {
      return fmt::format("; did you mean {}?", name);
    }
  }
  return {};
}

std::string fault_of(const CLI::App& app, const Invocation& invocation, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty() && invocation.words.size() > 1 && !invocation.words[1].starts_with("-")) {
    return fmt::format("shmoe: {}; see shmoe --help", unknown_command(app, invocation.words[1]));
  }
  std::string command = "shmoe";
  const CLI::App* last = &app;
  while (!last->get_subcommands().empty()) {
    last = last->get_subcommands().front();
    command += ' ' + last->get_name();
  }
  const std::string fault = one_line(usage_fault(*last, error));
  const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool as_mpirun = last->get_option_no_throw("--ranks") != nullptr && std::ranges::count(invocation.words, "-np");
  const std::string advice = as_mpirun ? "; -np is mpirun's, here it is -n" : unknown ? suggestion(*last, fault) : "";
  return fmt::format("{}: {}{}; see {} --help", command, fault, advice, command);
}

int refuse(const CLI::App& app, const Invocation& invocation, const CLI::ParseError& error) {
  runtime::tell_alike([&] { say("{}", fault_of(app, invocation, error)); });
  return app.got_subcommand("check") ? kExitUsage : 1;
}

/// Asked for nothing or for help only.
bool wants_help(const std::vector<std::string>& words) {
  return words.size() == 1 || (words.size() == 2 && words[1] == "help");
}

int parse_and_run(CLI::App& app, Invocation& invocation) {
  std::vector<std::string> words = invocation.words;
  if (wants_help(words)) {
    fmt::print(words.size() == 1 ? stderr : stdout, "{}", app.help());
    return words.size() == 1 ? 1 : 0;
  }
  if (words.size() == 3 && words[1] == "help") words = {words[0], words[2], "--help"};
  invocation.after_dashes = split_dashes(words);
  std::vector<std::string> reversed(words.rbegin(), words.rend() - 1);
  try {
    app.parse(reversed);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return refuse(app, invocation, error);
  }
  return invocation.exit_code;
}

int run_command_line(int argc, char** argv) {
  Invocation invocation{.words = {argv, argv + argc}, .after_dashes = {}};
  CLI::App app{kDescription, "shmoe"};
  app.set_version_flag("--version", kVersion, "version of shmoe");
  app.formatter(std::make_shared<ShortCommands>());
  app.require_subcommand(1);
  add_moe(app, invocation);
  add_run(app, invocation);
  add_info(app, invocation);
  add_inspect(app, invocation);
  add_diagnose(app, invocation);
  add_clean(app, invocation);
  add_check(app, invocation);
  add_choose(app, invocation);
  add_museum(app, invocation);
  add_bench(app, invocation);
  app.footer("\nSettings from the environment:\n" + runtime::settings_text());
  return parse_and_run(app, invocation);
}

}  // namespace
}  // namespace shmoe::apps

int main(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "shmoe");  // for ps and top: a rank is started as /proc/self/exe, and would be called exe
  return shmoe::apps::run_program("shmoe", [&] { return shmoe::apps::run_command_line(argc, argv); });
}
