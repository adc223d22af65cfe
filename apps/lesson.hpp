#pragma once
// What the main function of every lesson does: start the job, run the lesson, say in one line what went wrong.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

inline Error invalid(std::string text) { return Error{.code = Errc::invalid_argument, .context = std::move(text)}; }

inline int exit_code(Errc code) {
  if (code == Errc::broken_contract) return kExitContract;
  return code == Errc::deadlock ? kExitDeadlock : 1;
}

inline std::string usage(std::string_view program, const Plan& plan) {
  std::string options;
  for (const std::string_view option : plan.options) options += fmt::format(" [{}]", option);
  std::string text = fmt::format("usage: shmoe run --no-prefix -n {} -- {}{}\n", plan.ranks, program, options);
  text += fmt::format("       mpirun --oversubscribe -np {} {}{}\n", plan.ranks, program, options);
  text += fmt::format("ranks: {}{}\n", plan.ranks, plan.more_ranks ? " or more" : "");
  text += fmt::format("apps/{}/README.md tells what the program shows and what each option does\n", program);
  return text;
}

inline Result<std::unique_ptr<runtime::World>> start(const Plan& plan, const Options& options, const Adjust& adjust) {
  for (const std::string_view option : options.given()) {
    if (std::ranges::count(plan.options, option) == 0) {
      return invalid(fmt::format("{} is no option here; see --help", option));
    }
  }
  Result<runtime::Config> config = runtime::Config::load();
  if (!config) return std::move(config).error();
  if (plan.cores != 0) config->cores = plan.cores;
  if (adjust) adjust(*config, options);
  return runtime::World::create(*config);
}

inline Result<void> run_in(runtime::World& world, const Options& options, const Body& body) {
  Result<void> result = body(world, options);
  if (!result) {
    world.abort(result.error());  // nobody waits for a rank that gave up
    return result;
  }
  return world.finalize();
}

}  // namespace detail

/// Starts the job, runs `body` on every rank, ends the job, and returns the exit code: 0, also after --help; 1 after an
/// error; 85 after a broken contract; 86 is reserved. `adjust` changes settings before the start.
inline int run(int argc, char** argv, const Plan& plan, const Body& body, const Adjust& adjust = {}) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  std::string_view name = words.front();
  name.remove_prefix(name.find_last_of('/') + 1);
  std::string who(name);
  const auto fail = [&who](std::string_view text, int code) {
    const std::string line = fmt::format("{}: {}\n", who, text);
    std::fwrite(line.data(), 1, line.size(), stderr);
    return code;
  };
  try {
    const Options options({words.begin() + 1, words.end()});
    if (options.has("--help") || options.has("-h")) {
      fmt::print("{}", detail::usage(who, plan));
      return 0;
    }
    Result<std::unique_ptr<runtime::World>> world = detail::start(plan, options, adjust);
    if (!world) return fail(to_string(world.error()), 1);
    const std::int32_t ranks = (*world)->ranks();
    if (ranks < plan.ranks || (ranks > plan.ranks && !plan.more_ranks)) {
      if ((*world)->rank() == Rank{0}) {  // one line is enough
        fail(fmt::format("this lesson runs on {} ranks{}, not on {}; start it with: shmoe run -n {} -- {}", plan.ranks,
                         plan.more_ranks ? " or more" : "", ranks, plan.ranks, words.front()),
             1);
      }
      // A launcher may end the others as soon as one has left: not before the line is written.
      static_cast<void>((*world)->finalize());
      return 1;
    }
    who += fmt::format(": rank {}", (*world)->rank());
    const Result<void> result = detail::run_in(**world, options, body);
    if (!result) return fail(to_string(result.error()), detail::exit_code(result.error().code));
    return 0;
  } catch (const ContractViolation& e) {
    return fail(e.what(), kExitContract);
  } catch (const std::exception& e) {
    return fail(e.what(), 1);
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
