#pragma once
// How one thread of a process starts others of it and joins them: words to poll, a futex only for whoever sleeps.
//
//   host     begin() ---+                      +--> join() returns
//   member   await() ---+--> its work, leave() +

#include <atomic>
#include <cstdint>

#include "shmem/ladder.hpp"

namespace shmoe::shmem {

/// A count that threads of one process wait for.
class Doorbell {
 public:
  explicit Doorbell(Crowd crowd) : crowd_(crowd) {}

  /// Order:   what this thread did before is readable by whoever has waited for the new count.
  void ring();
  /// Until it has rung `count` times in all.
  /// Order:   as ring.
  void wait(std::uint32_t count);

 private:
  [[nodiscard]] bool has_rung(std::uint32_t count) const;

  std::atomic<std::uint32_t> rings_ = 0;
  std::atomic<std::uint32_t> sleepers_ = 0;
  Crowd crowd_;
};

/// Work for all members at a time. One host.
class Team {
 public:
  explicit Team(Crowd crowd) : begun_(crowd), over_(crowd) {}

  /// `members`: at least one.
  /// Order:   what the host did before is readable by every member behind its await.
  void begin(std::uint32_t members);
  /// Until every member has left.
  /// Order:   what a member did before it left is readable.
  void join();

  /// The `work`-th begin, counted from 1.
  /// Order:   as begin.
  void await(std::uint32_t work) { begun_.wait(work); }
  /// Order:   as join.
  void leave();

 private:
  Doorbell begun_;
  Doorbell over_;
  std::atomic<std::uint32_t> inside_ = 0;
  std::uint32_t works_ = 0;  // the host's own
};

/// Has one holder at a time, for whom nobody waits.
class Occupancy {
 public:
  /// Whether it was free.
  /// Order:   what the holder before did is readable.
  bool take() { return !taken_.test_and_set(std::memory_order_acquire); }
  void give_back() { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_;
};

}  // namespace shmoe::shmem
