#include "runtime/process_watch.hpp"

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bootstrap/text.hpp"

namespace shmoe::runtime {
namespace {

int open_pidfd(std::int64_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0U)); }

/// Also of one that nobody has waited for.
bool has_ended_by(int pidfd) {
  pollfd poll_for{.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&poll_for, 1, 0) > 0;
}

}  // namespace

Result<std::string> pid_namespace() {
  constexpr const char* kLink = "/proc/self/ns/pid";
  std::array<char, 64> text{};
  const ssize_t length = readlink(kLink, text.data(), text.size());
  if (length > 0) return std::string(text.data(), static_cast<std::size_t>(length));
  const int sys = errno;
  return Error{.code = Errc::system, .context = fmt::format("cannot read {}: mount /proc", kLink), .sys = sys};
}

Result<void> check_pid_namespaces(std::span<const bootstrap::IdCard> cards) {
  const std::string& ours = *cards.front().fact(kPidsFact);
  std::vector<std::int32_t> elsewhere;
  for (std::size_t i = 1; i < cards.size(); ++i) {
    if (*cards[i].fact(kPidsFact) != ours) elsewhere.push_back(static_cast<std::int32_t>(i));
  }
  if (elsewhere.empty()) return {};
  const Rank first{elsewhere.front()};
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format(
                   "rank{} {} of {} run{} in another pid namespace than rank 0 ({} and {}), and ranks watch each "
                   "other by pid: let their containers share one, by `docker run --pid=container:NAME`, "
                   "--pid=host or `pid:` of compose",
                   elsewhere.size() == 1 ? "" : "s", bootstrap::name_ranks(elsewhere), cards.size(),
                   elsewhere.size() == 1 ? "s" : "", *cards[first.index()].fact(kPidsFact), ours),
               .where = first};
}

ProcessWatch::ProcessWatch(std::span<const bootstrap::IdCard> cards) : seats_(cards.size()) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    seats_[i].owner = {.pid = cards[i].pid, .start_time = cards[i].start_time};
  }
}

ProcessWatch::~ProcessWatch() {
  for (const Seat& seat : seats_) {
    if (seat.pidfd >= 0) close(seat.pidfd);
  }
}

std::optional<std::string> ProcessWatch::gone(Rank rank) {
  const std::lock_guard lock(mutex_);
  Seat& seat = seats_[rank.index()];
  seat.ended = seat.ended || has_ended(seat);
  if (!seat.ended) return std::nullopt;
  return fmt::format("pid {} has ended", seat.owner.pid);
}

bool ProcessWatch::has_ended(Seat& seat) {
  if (seat.pidfd >= 0) return has_ended_by(seat.pidfd);
  if (!seat.asked) seat.pidfd = open_pidfd(seat.owner.pid);
  seat.asked = true;
  return !bootstrap::is_alive(
      seat.owner);  // read after the descriptor was opened: it is of this process and no later one
}

}  // namespace shmoe::runtime
