#include "apps/bench/inspector.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace shmoe::apps {
namespace {

/// On any processor, because a rank may be bound to its own; every look with all that there is to see.
std::vector<std::string> command_in(const std::string& folder) {
  return {"/bin/sh", "-c",
          fmt::format("exec taskset -c 0-$(($(nproc --all) - 1)) '{}/shmoe' inspect {} --every 1 --events 10000 "
                      "--slots barrier >/dev/null",
                      folder, ::getpid())};
}

}  // namespace

Result<Inspector> Inspector::start(const std::string& folder) {
  auto guardian = start_guardian();
  if (!guardian) return std::move(guardian).error();
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  auto child = start_child({command_in(folder), {}, guardian->pid, mask});
  if (!child) return std::move(child).error();
  Inspector inspector{*std::move(guardian), *std::move(child)};
  inspector.look(false);
  return inspector;
}

Inspector::~Inspector() {
  if (guardian_.lifeline.get() < 0) return;  // moved from
  ::kill(child_.pid, SIGKILL);
  ::waitpid(child_.pid, nullptr, 0);
  guardian_.lifeline.reset();
  ::waitpid(guardian_.pid, nullptr, 0);
}

void Inspector::look(bool at_work) const { ::kill(child_.pid, at_work ? SIGCONT : SIGSTOP); }

}  // namespace shmoe::apps
