#pragma once
// The two clocks of the benchmark, and what they say of one call on one rank.

#include <array>
#include <cstddef>
#include <cstdint>

#include <time.h>

namespace shmoe::apps {

inline std::int64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// Nanoseconds on the clock that all processes of this machine share.
inline std::int64_t wall_ns() { return read_clock(CLOCK_MONOTONIC); }

/// Nanoseconds that the threads of this process have run.
inline std::int64_t cpu_ns() { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

/// One call on one rank. Plain, because it travels through symmetric memory.
struct Lap {
  std::int64_t start = 0;  // wall
  std::int64_t end = 0;    // wall
  std::int64_t cpu = 0;    // spent between them
};

template <class Body>
Lap lap_of(const Body& body) {
  const std::int64_t cpu = cpu_ns();
  Lap lap{.start = wall_ns()};
  body();
  lap.end = wall_ns();
  lap.cpu = cpu_ns() - cpu;
  return lap;
}

inline constexpr std::size_t kMaxStages = 10;
using StageTimes = std::array<std::int64_t, kMaxStages>;

/// Notes how long each stage of a call took on this rank.
class StageWatch {
 public:
  explicit StageWatch(StageTimes& times) : times_(&times) {}
  void start() { last_ = wall_ns(); }
  void done(std::size_t stage) {
    const std::int64_t now = wall_ns();
    (*times_)[stage] = now - last_;
    last_ = now;
  }

 private:
  StageTimes* times_;
  std::int64_t last_ = 0;
};

}  // namespace shmoe::apps
