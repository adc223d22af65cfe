#pragma once
// What a thread does before it sleeps: it spins, then it yields.

#include <chrono>
#include <cstdint>

namespace shmoe::shmem {

namespace detail {
void pause();
void yield();
}  // namespace detail

/// How many cores of the job share a CPU. Where it is one, whoever spins keeps nobody from running.
struct Crowd {
  std::int32_t cores_a_cpu = 1;
};

/// Some tens of microseconds: a yield is a system call, and on a machine that does other things too it may give the CPU away
/// for longer than the peer needs.
inline constexpr int kSpins = 1000;
/// Of them, the first: a pause may take as long as a signal between two cores.
inline constexpr int kEagerLooks = 100;
/// Not a setting: a futex wake across cores takes about as long to run, so yielding this long costs nothing and often
/// saves it. In a crowd everybody gets a turn meanwhile, and a turn costs less than to be woken.
inline constexpr std::chrono::microseconds kYieldTime{100};

/// Whether `ready` came true meanwhile. A crowd does not spin, it only looks.
template <class Ready>
bool spin(Crowd crowd, const Ready& ready) {
  for (int i = 0; i < (crowd.cores_a_cpu > 1 ? 1 : kSpins); ++i) {
    if (ready()) return true;
    if (i >= kEagerLooks) detail::pause();
  }
  return false;
}

/// Whether `ready` came true meanwhile.
template <class Ready>
bool yield(Crowd crowd, const Ready& ready) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + crowd.cores_a_cpu * kYieldTime;
  do {
    if (ready()) return true;
    detail::yield();
  } while (Clock::now() < end);
  return false;
}

}  // namespace shmoe::shmem
