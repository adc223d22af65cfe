// For LD_PRELOAD: a wall clock that is ten years ahead at one look and ten years behind at the next. The clocks that
// measure time are left alone.

#include <atomic>

#include <ctime>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

std::atomic<unsigned> looks{0};

time_t jump() {
  constexpr time_t kTenYears = 315'360'000;
  return looks++ % 2 == 0 ? kTenYears : -kTenYears;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long failed = syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) {
    now->tv_sec += jump();
  }
  return static_cast<int>(failed);
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec exact{};
  const int failed = clock_gettime(CLOCK_REALTIME, &exact);
  *now = {exact.tv_sec, exact.tv_nsec / 1000};
  return failed;
}

time_t time(time_t* now) noexcept {
  timespec exact{};
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  if (now != nullptr) *now = exact.tv_sec;
  return exact.tv_sec;
}
}
