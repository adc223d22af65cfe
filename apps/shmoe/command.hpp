#pragma once
// What the subcommands share: the words of the command line, where the exit code goes, and how a failure is told.

#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/shmoe/say.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {

struct Invocation {
  std::vector<std::string> words;         // the whole command line, program first
  std::vector<std::string> after_dashes;  // what stands behind the first "--" of `shmoe run`
  int exit_code = 0;
};

void add_run(CLI::App& app, Invocation& invocation);
void add_moe(CLI::App& app, Invocation& invocation);
void add_inspect(CLI::App& app, Invocation& invocation);
void add_diagnose(CLI::App& app, Invocation& invocation);
void add_choose(CLI::App& app, Invocation& invocation);
void add_clean(CLI::App& app, Invocation& invocation);
void add_info(CLI::App& app, Invocation& invocation);
void add_check(CLI::App& app, Invocation& invocation);
void add_museum(CLI::App& app, Invocation& invocation);
void add_bench(CLI::App& app, Invocation& invocation);

/// Of an option: a decimal number of [lowest, highest]. CLI::Range takes NaN for one, and wraps what does not fit.
template <class Number>
CLI::Validator within(Number lowest, Number highest) {
  const auto fault_of = [=](std::string& text) {
    Number value{};
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    const bool right = error == std::errc{} && stopped == end && value >= lowest && value <= highest;
    return right ? std::string{} : fmt::format("'{}' is not a number from {} to {}", text, lowest, highest);
  };
  return CLI::Validator{fault_of, ""};
}

/// 86 for a proven deadlock, 85 for a broken contract, else 1.
int exit_code_of(const Error& error);

/// Says what failed and returns the exit code.
int failed(std::string_view command, const Error& error);

/// What the parser says of a fault, as the middle of one line.
std::string one_line(std::string fault);

/// A main: the exit code of `body`, unless its report could not be written or it threw, which is told in one line.
int run_program(std::string_view name, const std::function<int()>& body);

}  // namespace shmoe::apps
