#include "apps/shmoe/process_group.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <limits>
#include <optional>
#include <random>
#include <system_error>

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "apps/shmoe/child_process.hpp"
#include "apps/shmoe/line_forwarder.hpp"
#include "apps/shmoe/say.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "runtime/machine.hpp"
#include "shmem/bus_error.hpp"

namespace shmoe::apps {
namespace {

using Clock = std::chrono::steady_clock;

/// How long output of processes that outlive their rank is waited for.
constexpr std::chrono::milliseconds kDrain{500};
/// How often, once a rank has ended well, the launcher looks whether the others wait for it.
constexpr std::chrono::milliseconds kLook{100};
/// Of the launcher, beside two pipes of each rank: standard streams, signals, the guardian, the pipes of one that starts.
constexpr std::int32_t kOpenFilesOfItsOwn = 16;

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("signal {} (SIG{})", number, name);
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// How much an end tells: a killed rank more than one with a verdict of its own, that more than one that only failed.
int weight_of(int status) {
  if (WIFSIGNALED(status)) return 3;
  const int code = WEXITSTATUS(status);
  if (code == kExitContract || code == kExitDeadlock || code == shmem::kExitMemoryLost) return 2;
  return code == 0 ? 0 : 1;
}

std::string unique_job() {
  std::random_device random;
  return fmt::format("shmoe-{}-{:08x}", ::getpid(), random());
}

/// The signals that the launcher handles, blocked and readable while this lives.
class Signals {
 public:
  Signals() {
    sigset_t handled;
    sigemptyset(&handled);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&handled, number);
    ::sigprocmask(SIG_BLOCK, &handled, &before_);
    descriptor_ = FileDescriptor{::signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC)};
    if (descriptor_.get() < 0) failure_ = errno;
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  [[nodiscard]] int failure() const { return failure_; }
  [[nodiscard]] const sigset_t& before() const { return before_; }
  std::optional<int> next() {
    signalfd_siginfo info{};
    if (::read(descriptor_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t before_{};
  FileDescriptor descriptor_;
  int failure_ = 0;
};

class Group {
 public:
  explicit Group(const GroupPlan& plan) : plan_(plan) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { kill_all(); }

  Result<void> start();
  GroupEnd run();

 private:
  enum class Stage : std::uint8_t { running, patient, terminating, killing };
  struct End {
    std::int32_t rank;
    int status;
  };

  void poll_once();
  void on_signal(int number);
  void reap();
  void on_first_failure(const End& end);
  [[nodiscard]] bool caused_first_failure(const End& end) const;
  [[nodiscard]] bool is_survived(const End& end);
  void look_for_absent();
  void terminate(int number);
  void signal_all(int number) const;
  void on_deadline();
  void drain();
  [[nodiscard]] int lost_output() const;
  void kill_all();
  void set_stage(Stage stage, std::chrono::milliseconds limit);
  [[nodiscard]] std::size_t alive() const;
  [[nodiscard]] std::string names_of_alive() const;
  [[nodiscard]] int milliseconds_left() const;

  const GroupPlan& plan_;
  Signals signals_;
  Guardian guardian_;
  std::vector<pid_t> pids_;  // by rank; 0: ended
  std::deque<LineForwarder> streams_;
  Stage stage_ = Stage::running;
  std::optional<Clock::time_point> deadline_;
  std::optional<int> code_;
  std::optional<int> told_;
  std::optional<int> lost_;        // the code of a rank that the others survive
  std::optional<End> first_;       // that failed
  std::string first_failure_;      // said last, behind what the ranks themselves have to say
  std::filesystem::path meeting_;  // where rank 0 says how it can be reached
  std::optional<std::int32_t> ended_well_;
};

Result<void> Group::start() {
  if (signals_.failure() != 0) {
    return Error{Errc::system, "cannot watch for signals (signalfd): raise `ulimit -n`", {}, signals_.failure()};
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto guardian = start_guardian();
  if (!guardian) return guardian.error();
  guardian_ = *std::move(guardian);
  const std::string job = unique_job();
  const auto folder = bootstrap::runtime_folder(bootstrap::process_environment(), "/tmp");
  if (folder) meeting_ = bootstrap::meeting_path(*folder, job);
  for (std::int32_t rank = 0; rank < plan_.ranks; ++rank) {
    ChildPlan child_plan{plan_.command, plan_.environment, guardian_.pid, signals_.before()};
    child_plan.environment.insert(child_plan.environment.end(), {{"SHMOE_LAUNCHER", "shmoe"},
                                                                 {"SHMOE_JOB", job},
                                                                 {"SHMOE_RANK", std::to_string(rank)},
                                                                 {"SHMOE_SIZE", std::to_string(plan_.ranks)}});
    auto child = start_child(child_plan);
    if (!child) return child.error();
    const std::string prefix = plan_.prefix ? fmt::format("[{}] ", rank) : "";
    pids_.push_back(child->pid);
    streams_.emplace_back(std::move(child->out), STDOUT_FILENO, prefix);
    streams_.emplace_back(std::move(child->err), STDERR_FILENO, prefix);
  }
  if (plan_.limit.count() > 0) deadline_ = Clock::now() + plan_.limit;
  return {};
}

GroupEnd Group::run() {
  reap();
  while (alive() > 0) poll_once();
  ::kill(-guardian_.pid, SIGKILL);
  std::error_code ignored;
  std::filesystem::remove(meeting_, ignored);  // of a start that failed
  drain();
  if (!first_failure_.empty()) say("{}", first_failure_);
  if (const int reason = lost_output(); reason != 0) {
    say("{}: standard output cannot be written, what the ranks printed is lost: {}", plan_.name,
        std::generic_category().message(reason));
    if (code_.value_or(0) == 0) code_ = 1;
  }
  return {.code = code_.value_or(ended_well_ ? 0 : lost_.value_or(0)), .told = told_};
}

int Group::milliseconds_left() const {
  std::int64_t left = std::numeric_limits<int>::max();
  if (deadline_) left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
  if (stage_ == Stage::running && ended_well_) left = std::min<std::int64_t>(left, kLook.count());
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

void Group::poll_once() {
  std::vector<pollfd> ready{{signals_.descriptor(), POLLIN, 0}};
  for (const LineForwarder& stream : streams_) ready.push_back({stream.descriptor(), POLLIN, 0});
  if (::poll(ready.data(), ready.size(), milliseconds_left()) < 0) return;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (ready[i + 1].revents != 0) streams_[i].forward();
  }
  if (ready[0].revents != 0) {
    while (const auto number = signals_.next()) on_signal(*number);
  }
  if (stage_ == Stage::running && ended_well_) look_for_absent();
  if (deadline_ && Clock::now() >= *deadline_) on_deadline();
}

/// Rank 0 takes its note away once all ranks have come, so who has ended while it is there never comes.
void Group::look_for_absent() {
  std::error_code ignored;
  if (!std::filesystem::exists(meeting_, ignored)) return;
  say("{}: rank {} ended with code 0 before it joined the others", plan_.name, *ended_well_);
  code_ = 1;
  set_stage(Stage::patient, plan_.patience);
}

void Group::on_signal(int number) {
  if (number == SIGCHLD) return reap();
  told_ = number;
  if (stage_ >= Stage::terminating) return signal_all(SIGKILL);
  if (!code_) {
    say("{}: told to end by {}; ending {} ranks", plan_.name, signal_name(number), alive());
    code_ = 128 + number;
  }
  terminate(number);
}

/// Of the ranks that ended at the same time the one is named whose end tells most.
void Group::reap() {
  std::optional<End> failed;
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
    const auto found = std::ranges::find(pids_, pid);
    if (found == pids_.end()) continue;
    *found = 0;
    const End end{static_cast<std::int32_t>(found - pids_.begin()), status};
    if (exit_code(status) == 0) ended_well_ = end.rank;
    if (is_survived(end)) continue;
    if (weight_of(status) > (failed ? weight_of(failed->status) : 0)) failed = end;
  }
  if (failed && (!code_ || caused_first_failure(*failed))) on_first_failure(*failed);
}

/// Peers see that a killed rank is gone before the system reports its end: one of them may have failed of it meanwhile.
bool Group::caused_first_failure(const End& end) const {
  return stage_ == Stage::patient && first_ && weight_of(first_->status) == 1 && WIFSIGNALED(end.status) &&
         !plan_.survive;
}

bool Group::is_survived(const End& end) {
  if (!plan_.survive || !WIFSIGNALED(end.status) || code_) return false;
  if (!lost_) lost_ = exit_code(end.status);
  say("{}: rank {} was killed by {}; the others go on", plan_.name, end.rank, signal_name(WTERMSIG(end.status)));
  return true;
}

void Group::on_first_failure(const End& end) {
  first_ = end;
  code_ = exit_code(end.status);
  if (WIFSIGNALED(end.status)) {
    first_failure_ =
        fmt::format("{}: rank {} was killed by {}", plan_.name, end.rank, signal_name(WTERMSIG(end.status)));
  } else if (plan_.report_exits) {
    first_failure_ = fmt::format("{}: rank {} exited with code {}{}", plan_.name, end.rank, *code_,
                                 *code_ == shmem::kExitMemoryLost ? ": memory that it shared is gone" : "");
  }
  set_stage(Stage::patient, plan_.patience);
}

void Group::set_stage(Stage stage, std::chrono::milliseconds limit) {
  stage_ = stage;
  deadline_ = Clock::now() + limit;
}

/// The group, and the ranks that have left it for one of their own.
void Group::signal_all(int number) const {
  ::kill(-guardian_.pid, number);
  for (const pid_t pid : pids_) {
    if (pid > 0 && ::getpgid(pid) != guardian_.pid) ::kill(pid, number);
  }
}

void Group::terminate(int number) {
  signal_all(number);
  signal_all(SIGCONT);  // a stopped rank could not end
  set_stage(Stage::terminating, plan_.grace);
}

void Group::on_deadline() {
  switch (stage_) {
    case Stage::running:
      say("{}: {} ran longer than the limit of {} s; ending them", plan_.name, names_of_alive(),
          std::chrono::duration<double>(plan_.limit).count());
      code_ = kExitTimeout;
      return terminate(SIGTERM);
    case Stage::patient: return terminate(SIGTERM);
    case Stage::terminating:
    case Stage::killing:
      if (stage_ == Stage::terminating) say("{}: {} did not end when told to; killed", plan_.name, names_of_alive());
      signal_all(SIGKILL);
      set_stage(Stage::killing, plan_.grace);
  }
}

/// All that the ranks have left, and what others that outlive them add within a short time.
void Group::drain() {
  for (LineForwarder& stream : streams_) stream.forward_what_is_there();
  const Clock::time_point end = Clock::now() + kDrain;
  while (Clock::now() < end) {
    std::vector<pollfd> open;
    std::vector<LineForwarder*> streams;
    for (LineForwarder& stream : streams_) {
      if (stream.descriptor() < 0) continue;
      open.push_back({stream.descriptor(), POLLIN, 0});
      streams.push_back(&stream);
    }
    if (open.empty()) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (::poll(open.data(), open.size(), static_cast<int>(std::max<std::int64_t>(left, 0))) < 0) continue;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i].revents != 0) streams[i]->forward();
    }
  }
  for (LineForwarder& stream : streams_) stream.finish();
}

/// Why standard output could not be written, or 0.
int Group::lost_output() const {
  for (const LineForwarder& stream : streams_) {
    if (stream.target() == STDOUT_FILENO && stream.lost() != 0) return stream.lost();
  }
  return 0;
}

void Group::kill_all() {
  if (guardian_.pid < 0) return;
  signal_all(SIGKILL);
  for (const pid_t pid : pids_) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
  }
  ::waitpid(guardian_.pid, nullptr, 0);
}

std::size_t Group::alive() const { return pids_.size() - static_cast<std::size_t>(std::ranges::count(pids_, 0)); }

std::string Group::names_of_alive() const {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] != 0) ranks.push_back(rank);
  }
  if (ranks.size() <= 10) return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
  return fmt::format("{} of {} ranks", ranks.size(), pids_.size());
}

}  // namespace

Result<GroupEnd> run_group(const GroupPlan& plan) {
  SHMOE_EXPECTS(plan.ranks >= 1 && !plan.command.empty(), "{} ranks of a command of {} words", plan.ranks,
                plan.command.size());
  if (auto allowed = runtime::allow_open_files(plan.ranks, 2 * plan.ranks + kOpenFilesOfItsOwn); !allowed)
    return allowed.error();
  Group group{plan};
  if (auto started = group.start(); !started) return started.error();
  return group.run();
}

}  // namespace shmoe::apps
