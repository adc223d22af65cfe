#include "apps/shmoe/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "bootstrap/launch.hpp"

namespace shmoe::apps {
namespace {

struct Pipe {
  FileDescriptor read, write;
};

Result<Pipe> open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Error{Errc::system, "cannot open a pipe: raise the limit of open files (ulimit -n)", {}, errno};
  }
  return Pipe{FileDescriptor{ends[0]}, FileDescriptor{ends[1]}};
}

Error cannot_fork(int reason) {
  return Error{Errc::system, "cannot start another process: raise the limit of processes (ulimit -u)", {}, reason};
}

[[noreturn]] void report_and_exit(int report, int reason) {
  const auto ignored = ::write(report, &reason, sizeof reason);
  static_cast<void>(ignored);
  ::_exit(127);
}

[[noreturn]] void become(const ChildPlan& plan, pid_t parent, int out, int err, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::setpgid(0, plan.group);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 ||
      ::dup2(err, STDERR_FILENO) < 0) {
    report_and_exit(report, errno);
  }
  for (const char* name : bootstrap::kOtherLaunchers) ::unsetenv(name);
  for (const auto& [name, value] : plan.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : plan.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::signal(SIGINT, SIG_DFL);  // a shell ignores it for what it starts in the background, but the launcher passes it on
  ::sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  ::execvp(arguments[0], arguments.data());
  report_and_exit(report, errno);
}

/// What to do about a program that cannot be run.
/// Beside the program itself a rank needs an empty standard input, and shmoe finds itself in /proc.
std::string advice_on(const std::string& program, int reason) {
  if (::access("/dev/null", R_OK) != 0) return "there is no /dev/null";
  if (program == "/proc/self/exe" && ::access(program.c_str(), X_OK) != 0) return "mount /proc";
  if (reason == EACCES) return "give a program and not a folder, and one that may be executed (chmod +x)";
  if (reason == ENOEXEC) return "a script needs a first line such as #!/bin/sh";
  if (program.find('/') == program.npos)
    return fmt::format("no folder of PATH has it; one in this folder is ./{}", program);
  return "give its path as seen from this folder, or build it first";
}

/// 0 once the program runs, else why it does not.
int exec_failure(int report) {
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(report, &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof reason) ? reason : 0;
}

[[noreturn]] void guard(int lifeline) {
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // whoever has stopped the whole group has stopped the guardian too
  ::setpgid(0, 0);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  char byte = 0;
  while (::read(lifeline, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

}  // namespace

Result<Child> start_child(const ChildPlan& plan) {
  auto out = open_pipe();
  auto err = open_pipe();
  auto report = open_pipe();
  if (!out) return out.error();
  if (!err) return err.error();
  if (!report) return report.error();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_fork(errno);
  if (pid == 0) become(plan, parent, out->write.get(), err->write.get(), report->write.get());
  ::setpgid(pid, plan.group);
  report->write.reset();
  if (const int reason = exec_failure(report->read.get()); reason != 0) {
    ::waitpid(pid, nullptr, 0);
    return Error{Errc::invalid_argument,
                 fmt::format("cannot run '{}': {}", plan.command.front(), advice_on(plan.command.front(), reason)),
                 {},
                 reason};
  }
  return Child{pid, std::move(out->read), std::move(err->read)};
}

Result<Guardian> start_guardian() {
  ::signal(SIGCHLD, SIG_DFL);  // one that ignores it hands that down, and ends of children would go unseen
  auto lifeline = open_pipe();
  if (!lifeline) return lifeline.error();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_fork(errno);
  if (pid == 0) {
    lifeline->write.reset();
    guard(lifeline->read.get());
  }
  ::setpgid(pid, pid);
  return Guardian{pid, std::move(lifeline->write)};
}

}  // namespace shmoe::apps
