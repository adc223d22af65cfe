#include "shmem/futex.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include <sys/syscall.h>
#include <unistd.h>

namespace shmoe::shmem {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

int operation(int op, Sharing sharing) { return op | (sharing == Sharing::threads ? FUTEX_PRIVATE_FLAG : 0); }

timespec to_timespec(nanoseconds t) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(t);
  return {.tv_sec = seconds.count(), .tv_nsec = (t - seconds).count()};
}

}  // namespace

void futex_wake(std::uint32_t* word, Sharing sharing) {
  syscall(SYS_futex, word, operation(FUTEX_WAKE, sharing), INT_MAX, nullptr, nullptr, 0);
}

void futex_sleep(std::uint32_t* word, std::uint32_t expected, nanoseconds limit, Sharing sharing) {
  const timespec timeout = to_timespec(limit);
  syscall(SYS_futex, word, operation(FUTEX_WAIT, sharing), expected, &timeout, nullptr, 0);
}

void futex_sleep(std::uint32_t* word, std::uint32_t expected) {
  syscall(SYS_futex, word, operation(FUTEX_WAIT, Sharing::threads), expected, nullptr, nullptr, 0);
}

void futex_sleep_any(std::span<const futex_waitv> words, nanoseconds limit, Sharing sharing) {
  const timespec timeout = to_timespec(std::chrono::steady_clock::now().time_since_epoch() + limit);
  const long rc =
      syscall(SYS_futex_waitv, words.data(), static_cast<unsigned>(words.size()), 0U, &timeout, CLOCK_MONOTONIC);
  if (rc >= 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT) return;
  auto* word = reinterpret_cast<std::uint32_t*>(words.front().uaddr);
  futex_sleep(word, static_cast<std::uint32_t>(words.front().val), std::min<nanoseconds>(limit, 1ms), sharing);
}

}  // namespace shmoe::shmem
