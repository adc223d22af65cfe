#pragma once
// What a thread does before it sleeps: it spins, then it yields.

#include <chrono>

namespace shmoe::shmem {

namespace detail {
void pause();
void yield();
}  // namespace detail

/// Whether there is a CPU for every thread of the job, so that whoever spins keeps nobody from running.
enum class Crowd : bool { no, yes };

inline constexpr int kSpins = 200;
/// Not a setting: a futex wake across cores takes about as long to run, so yielding this long costs nothing and often
/// saves it.
inline constexpr std::chrono::microseconds kYieldTime{100};

/// Whether `ready` came true on the way.
template <class Ready>
bool climb(Crowd crowd, const Ready& ready) {
  using Clock = std::chrono::steady_clock;
  if (crowd == Crowd::no) {
    for (int i = 0; i < kSpins; ++i) {
      if (ready()) return true;
      detail::pause();
    }
  }
  const Clock::time_point end = Clock::now() + kYieldTime;
  do {
    if (ready()) return true;
    detail::yield();
  } while (Clock::now() < end);
  return false;
}

}  // namespace shmoe::shmem
