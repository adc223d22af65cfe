#pragma once
// The times of the stages of a step.

#include <chrono>
#include <cstddef>

namespace shmoe::apps {

/// Runs body and notes how long it took, whatever it ends with.
template <class Step, class Stage, class Body>
auto timed(Step& step, Stage stage, const Body& body) {
  struct Stopwatch {
    std::chrono::nanoseconds& time;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    ~Stopwatch() { time = std::chrono::steady_clock::now() - start; }
  } const stopwatch{step.times[static_cast<std::size_t>(stage)]};
  return body();
}

}  // namespace shmoe::apps
