#pragma once
// Whether the other processes of a job are still there.

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

/// The cheap question is asked every time; the sure one, which also sees a process that nobody has waited for, in turns, so
/// that its cost does not grow with the ranks.
class ProcessWatch {
 public:
  explicit ProcessWatch(std::span<const bootstrap::IdCard> cards);

  /// "pid 4711 has ended", or nothing while it lives. Any thread may ask.
  std::optional<std::string> gone(Rank rank);

 private:
  using Clock = std::chrono::steady_clock;
  struct Seat {
    bootstrap::Owner owner;
    Clock::time_point next = Clock::time_point::min();
    bool ended = false;
  };
  bool due(Seat& seat);

  std::mutex mutex_;
  std::vector<Seat> seats_;
};

}  // namespace shmoe::runtime
