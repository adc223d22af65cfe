// Whether other processes are still there, as a job of many ranks asks.

#include "runtime/process_watch.hpp"

#include <csignal>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

/// A process that does nothing, and the card that it wrote of itself.
class Sleeper {
 public:
  Sleeper() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      const auto own = bootstrap::this_process();
      const bool told = own && write(ends[1], &own->start_time, sizeof own->start_time) == sizeof own->start_time;
      while (told) pause();
      _exit(1);
    }
    REQUIRE(read(ends[0], &start_time_, sizeof start_time_) == sizeof start_time_);
    for (const int end : ends) close(end);
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  [[nodiscard]] bootstrap::IdCard card() const {
    bootstrap::IdCard card;
    card.pid = pid_;
    card.start_time = start_time_;
    return card;
  }
  /// Nobody waits for it.
  void end() const {
    kill(pid_, SIGKILL);
    siginfo_t about{};
    REQUIRE(waitid(P_PID, static_cast<id_t>(pid_), &about, WEXITED | WNOWAIT) == 0);
  }

 private:
  pid_t pid_ = 0;
  std::uint64_t start_time_ = 0;
};

}  // namespace

TEST_CASE("process watch: the next question sees an end that nobody has waited for, with any number of ranks") {
  const Sleeper sleeper;
  std::vector<bootstrap::IdCard> cards(384, *bootstrap::id_card_of_this_process());
  cards.back() = sleeper.card();
  ProcessWatch watch(cards);
  const Rank last{cards.size() - 1};
  for (int time = 0; time < 3; ++time) CHECK(!watch.gone(last).has_value());
  CHECK(!watch.gone(Rank{0}).has_value());
  sleeper.end();
  CHECK(watch.gone(last) == fmt::format("pid {} has ended", sleeper.card().pid));
  CHECK(watch.gone(last) == fmt::format("pid {} has ended", sleeper.card().pid));
  CHECK(!watch.gone(Rank{0}).has_value());
}

TEST_CASE("process watch: an end before the first question, and a later process of the same number") {
  const Sleeper sleeper;
  std::vector<bootstrap::IdCard> cards(2, sleeper.card());
  cards[1].start_time += 1;
  ProcessWatch watch(cards);
  CHECK(watch.gone(Rank{1}) == fmt::format("pid {} has ended", sleeper.card().pid));
  sleeper.end();
  CHECK(watch.gone(Rank{0}) == fmt::format("pid {} has ended", sleeper.card().pid));
}
