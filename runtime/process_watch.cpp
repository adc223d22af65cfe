#include "runtime/process_watch.hpp"

#include <cerrno>
#include <csignal>

#include <fmt/format.h>

namespace shmoe::runtime {

ProcessWatch::ProcessWatch(std::span<const bootstrap::IdCard> cards) : seats_(cards.size()) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    seats_[i].owner = {.pid = cards[i].pid, .start_time = cards[i].start_time};
  }
}

std::optional<std::string> ProcessWatch::gone(Rank rank) {
  const std::lock_guard lock(mutex_);
  Seat& seat = seats_[rank.index()];
  if (!seat.ended) {
    const bool missing = kill(static_cast<pid_t>(seat.owner.pid), 0) != 0 && errno == ESRCH;
    if (!missing && (!due(seat) || bootstrap::is_alive(seat.owner))) return std::nullopt;
    seat.ended = true;
  }
  return fmt::format("pid {} has ended", seat.owner.pid);
}

bool ProcessWatch::due(Seat& seat) {
  const auto now = Clock::now();
  if (now < seat.next) return false;
  seat.next = now + std::chrono::milliseconds(10) * seats_.size();
  return true;
}

}  // namespace shmoe::runtime
