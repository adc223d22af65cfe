#include "apps/bench/child_figures.hpp"

#include <cerrno>
#include <charconv>

#include <signal.h>
#include <sys/wait.h>

#include "apps/shmoe/child_process.hpp"

namespace shmoe::apps {
namespace {

std::string read_all(const FileDescriptor& stream) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t got = ::read(stream.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
}

Result<double> run_once(const ChildRuns& runs, const Guardian& guardian) {
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  const auto command = runs.command();
  const auto child = start_child({command, runs.environment, guardian.pid, mask});
  if (!child) return child.error();
  const std::string out = read_all(child->out);
  const std::string err = read_all(child->err);
  int status = 0;
  while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
  }
  double figure = 0;
  const auto parsed = std::from_chars(out.data(), out.data() + out.size(), figure);
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == runs.exit_code;
  if (ended && parsed.ec == std::errc{}) return figure;
  return Error{.code = Errc::system, .context = fmt::format("the ranks did not come to their end: {}", err)};
}

}  // namespace

Result<std::vector<double>> child_figures(const ChildRuns& runs) {
  auto guardian = start_guardian();
  if (!guardian) return std::move(guardian).error();
  std::vector<double> figures;
  std::optional<Error> failure;
  for (std::int64_t repeat = 0; repeat <= runs.repeats && !failure; ++repeat) {
    const auto figure = run_once(runs, *guardian);
    if (!figure) failure = figure.error();
    if (figure && repeat > 0) figures.push_back(*figure);
  }
  guardian->lifeline.reset();
  ::waitpid(guardian->pid, nullptr, 0);
  if (failure) return *std::move(failure);
  return figures;
}

}  // namespace shmoe::apps
