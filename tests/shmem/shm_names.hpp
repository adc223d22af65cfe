#pragma once
// Names in /dev/shm that a test may leave behind only until it ends, and children that end in a known way.

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shmoe::shmem::test {

inline const std::filesystem::path kShm = "/dev/shm";

/// A name prefix of its own; whatever still carries it is removed at the end, also after a failed check.
class ShmNames {
 public:
  ShmNames() : owner_(::getpid()) {
    static std::atomic<int> counter{0};
    prefix_ = fmt::format("shmoe.test{}x{}.", owner_, counter.fetch_add(1));
  }
  ShmNames(const ShmNames&) = delete;
  ShmNames& operator=(const ShmNames&) = delete;
  ~ShmNames() {
    if (::getpid() != owner_) return;
    for (const std::string& name : present()) {
      std::error_code ignored;
      std::filesystem::remove(kShm / name, ignored);
    }
  }
  [[nodiscard]] std::string of(const std::string& tail) const { return prefix_ + tail; }
  [[nodiscard]] std::vector<std::string> present() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(kShm)) {
      std::string name = entry.path().filename().string();
      if (name.starts_with(prefix_)) names.push_back(std::move(name));
    }
    return names;
  }

 private:
  ::pid_t owner_;
  std::string prefix_;
};

inline bool in_shm(const std::string& name) { return std::filesystem::exists(kShm / name); }

/// Runs `body` in a child and says how it ended; what it prints to stderr is added to `said`.
struct Ending {
  int exit_code = -1;
  int signal = 0;
  std::string said;
};

template <class Body>
::pid_t start_child(Body body) {
  const ::pid_t child = ::fork();
  if (child != 0) return child;
  // The test framework and the sanitisers catch these; the parent wants to see them.
  for (const int number : {SIGSEGV, SIGABRT, SIGBUS}) std::signal(number, SIG_DFL);
  const ::rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  int code = 99;
  try {
    code = body();
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
  ::_exit(code);
}

inline Ending await_child(::pid_t child) {
  Ending ending;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  return ending;
}

template <class Body>
Ending in_child(Body body) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const ::pid_t child = start_child([&] {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    return body();
  });
  ::close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  Ending ending = await_child(child);
  ending.said = std::move(said);
  return ending;
}

}  // namespace shmoe::shmem::test
