#include "apps/bench/start_bench.hpp"

#include <cerrno>
#include <charconv>

#include <signal.h>
#include <sys/wait.h>

#include "apps/bench/samples.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/child_process.hpp"
#include "apps/shmoe/say.hpp"

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

std::vector<std::string> command_for(const StartPlan& plan, const std::string& folder) {
  return {folder + "/shmoe",
          "run",
          "-n",
          fmt::to_string(plan.ranks),
          "--no-prefix",
          "--",
          folder + "/shmoe-first-operator",
          fmt::to_string(wall_ns())};
}

/// Microseconds.
Result<double> start_once(const StartPlan& plan, const std::string& folder, const Guardian& guardian) {
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  const auto command = command_for(plan, folder);
  const auto child = start_child({command, {}, guardian.pid, mask});
  if (!child) return child.error();
  const std::string out = read_all(child->out);
  const std::string err = read_all(child->err);
  int status = 0;
  while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::int64_t nanoseconds = 0;
  const auto parsed = std::from_chars(out.data(), out.data() + out.size(), nanoseconds);
  if (status == 0 && parsed.ec == std::errc{}) return static_cast<double>(nanoseconds) / 1e3;
  return Error{.code = Errc::system, .context = fmt::format("the ranks did not come to their end: {}", err)};
}

/// The first one is not counted: it finds the programs on the disk.
Result<std::vector<double>> start_all(const StartPlan& plan, const std::string& folder) {
  auto guardian = start_guardian();
  if (!guardian) return std::move(guardian).error();
  std::vector<double> times;
  std::optional<Error> failure;
  for (std::int64_t repeat = 0; repeat <= plan.repeats && !failure; ++repeat) {
    const auto time = start_once(plan, folder, *guardian);
    if (!time) failure = time.error();
    if (time && repeat > 0) times.push_back(*time);
  }
  guardian->lifeline.reset();
  ::waitpid(guardian->pid, nullptr, 0);
  if (failure) return *std::move(failure);
  return times;
}

}  // namespace

Result<BenchReport> bench_start(const StartPlan& plan, const std::string& folder) {
  const auto times = start_all(plan, folder);
  if (!times) return times.error();
  const Estimate start = estimate(*times);
  BenchReport report;
  report.rows.push_back({.name = "start", .ranks = plan.ranks, .ours_us = start.median, .verified = true});
  report.text = fmt::format(
      "{}, {}: from the exec of `shmoe run` until all of them have finished layout and notify\n"
      "median {:.1f} ms, 95 % interval {:.1f} to {:.1f} ms\n",
      counted(plan.ranks, "rank"), counted(plan.repeats, "start"), start.median / 1e3, start.low / 1e3,
      start.high / 1e3);
  return report;
}

}  // namespace shmoe::apps
