#include "shmem/last_words.hpp"

#include <thread>

namespace shmoe::shmem {

void wait_until(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limit;
  while (!condition() && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

}  // namespace shmoe::shmem
