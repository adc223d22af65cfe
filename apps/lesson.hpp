#pragma once
// What the main function of every lesson does: start the job, run the lesson, say in one line what went wrong.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/standard_streams.hpp"
#include "runtime/telling.hpp"
#include "runtime/world.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::lesson {

struct Plan {
  std::int32_t ranks = 2;                      // the job must have as many
  bool more_ranks = false;                     // or more
  std::int32_t cores = 0;                      // of a rank; 0: as SHMOE_CORES says
  std::vector<std::string_view> options = {};  // such as "--break"
};

/// What the command line asked for.
class Options {
 public:
  explicit Options(std::vector<std::string_view> given) : given_(std::move(given)) {}
  [[nodiscard]] bool has(std::string_view option) const { return std::ranges::count(given_, option) != 0; }
  [[nodiscard]] const std::vector<std::string_view>& given() const { return given_; }

 private:
  std::vector<std::string_view> given_;
};

using Adjust = std::function<void(runtime::Config&, const Options&)>;
using Body = std::function<Result<void>(runtime::World&, const Options&)>;

namespace detail {

inline int exit_code(Errc code) {
  if (code == Errc::broken_contract) return kExitContract;
  return code == Errc::deadlock ? kExitDeadlock : 1;
}

/// The program that starts ranks, as the shell of whoever started `path` finds it: beside the lesson in the build folder.
inline std::string launcher_for(std::string_view path) {
  const std::filesystem::path beside = std::filesystem::path(path).parent_path() / "shmoe" / "shmoe";
  std::error_code unreadable;
  return std::filesystem::is_regular_file(beside, unreadable) ? beside.native() : "shmoe";
}

/// `path` is how the program was started.
inline std::string usage(std::string_view path, const Plan& plan) {
  std::string options;
  for (const std::string_view option : plan.options) options += fmt::format(" [{}]", option);
  const std::string_view program = path.substr(path.find_last_of('/') + 1);
  std::string text =
      fmt::format("usage: {} run --no-prefix -n {} -- {}{}\n", launcher_for(path), plan.ranks, path, options);
  text += fmt::format("       mpirun --oversubscribe -np {} {}{}\n", plan.ranks, path, options);
  text += fmt::format("ranks: {}{}\n", plan.ranks, plan.more_ranks ? " or more" : "");
  text += fmt::format("apps/{}/README.md tells what the program shows and what each option does\n", program);
  return text;
}

inline Result<std::unique_ptr<runtime::World>> start(const Plan& plan, const Options& options, const Adjust& adjust) {
  Result<runtime::Config> config = runtime::Config::load();
  if (!config) return std::move(config).error();
  if (plan.cores != 0) config->cores = plan.cores;
  if (adjust) adjust(*config, options);
  return runtime::World::create(*config);
}

inline Result<void> run_in(runtime::World& world, const Options& options, const Body& body) {
  Result<void> result;
  try {
    result = body(world, options);
  } catch (const ContractViolation& violation) {
    result = Error{.code = Errc::broken_contract, .context = violation.what(), .where = world.rank()};
  } catch (const std::exception& exception) {
    result =
        Error{.code = Errc::system,
              .context = fmt::format("the host threw: {}; catch it there, or return it as an error", exception.what()),
              .where = world.rank()};
  }
  if (!result) {
    world.abort(result.error());  // nobody waits for a rank that gave up
    return result;
  }
  return world.finalize();
}

/// "this lesson runs on 2 ranks, not on 3; ...", or nothing where the job has as many as it must.
inline std::optional<std::string> wrong_size(std::int32_t ranks, const Plan& plan, std::string_view path) {
  if (ranks == plan.ranks || (ranks > plan.ranks && plan.more_ranks)) return std::nullopt;
  return fmt::format("this lesson runs on {} ranks{}, not on {}; start it with: {} run -n {} -- {}", plan.ranks,
                     plan.more_ranks ? " or more" : "", ranks, launcher_for(path), plan.ranks, path);
}

}  // namespace detail

/// Starts the job, runs `body` on every rank, ends the job, and returns the exit code: 0, also after --help; 1 after an
/// error; 85 after a broken contract; 86 after a proven deadlock. `adjust` changes settings before the start.
inline int run(int argc, char** argv, const Plan& plan, const Body& body, const Adjust& adjust = {}) {
  apps::hold_standard_streams();
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  const std::string_view path = words.front();
  std::string who(path.substr(path.find_last_of('/') + 1));
  const auto say = [&who](std::string_view text) {
    const std::string line = fmt::format("{}: {}\n", who, text);
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
  const auto code_of_output = [&say] {
    if (apps::standard_output_is_written()) return 0;
    say("standard output cannot be written: what it printed is lost");
    return 1;
  };
  try {
    const Options options({words.begin() + 1, words.end()});
    if (options.has("--help") || options.has("-h")) {
      fmt::print("{}", detail::usage(path, plan));
      return code_of_output();
    }
    for (const std::string_view option : options.given()) {
      if (std::ranges::count(plan.options, option) != 0) continue;
      const std::string known = plan.options.empty() ? "none" : fmt::format("{}", fmt::join(plan.options, ", "));
      runtime::tell_alike([&] { say(fmt::format("{} is no option here, there is {}; see --help", option, known)); });
      return 1;
    }
    Result<std::unique_ptr<runtime::World>> world = detail::start(plan, options, adjust);
    if (!world) {
      runtime::tell_failed_start(world.error(), [&] { say(to_string(world.error())); });
      return 1;
    }
    if (const auto wrong = detail::wrong_size((*world)->ranks(), plan, path)) {
      const Error error{.code = Errc::invalid_argument, .context = *wrong};
      (*world)->tell_once(error, [&] { say(*wrong); });
      return 1;
    }
    who += fmt::format(": rank {}", (*world)->rank());
    const Result<void> result = detail::run_in(**world, options, body);
    if (result) return code_of_output();
    (*world)->tell_once(result.error(), [&] { say(to_string(result.error())); });
    return detail::exit_code(result.error().code);
  } catch (const ContractViolation& e) {
    say(e.what());
    return kExitContract;
  } catch (const std::exception& e) {
    say(e.what());
    return 1;
  }
}

/// Where print_in_order keeps a rank's text; lessons use the user data below.
inline constexpr Offset kPrintArea{64 * 1024};
inline constexpr std::size_t kPrintBytes = 32 * 1024;

/// Rank 0 prints the texts of all ranks in rank order, so that the output is the same under any launcher. Every rank
/// calls it.
/// Order:   texts -> barrier -> rank 0 reads them -> barrier: the area may be used again
inline Result<void> print_in_order(runtime::Communicator& all, std::string_view text) {
  SHMOE_EXPECTS(text.size() < kPrintBytes, "{} bytes to print; the area holds {}", text.size(), kPrintBytes);
  const std::span<char> mine = all.local<char>(kPrintArea, kPrintBytes);
  *std::ranges::copy(text, mine.begin()).out = '\0';
  Result<void> printed = all.launch("print", [](runtime::CoreContext& context) {
    runtime::ZeroBufferSync sync(context);
    const shmem::Witness everyone = sync.barrier_all();
    if (context.rank() != Rank{0} || context.core() != Core{0}) return;
    std::vector<char> theirs(kPrintBytes);
    for (Rank rank{0}; rank.value() < context.ranks(); ++rank) {
      context.get(rank, kPrintArea, std::span<char>{theirs}, everyone);
      std::fputs(theirs.data(), stdout);
    }
    std::fflush(stdout);
  });
  if (!printed) return printed;
  return all.barrier();
}

}  // namespace shmoe::lesson
