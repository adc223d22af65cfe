#include "shmem/ladder.hpp"

#include <atomic>
#include <thread>

namespace shmoe::shmem::detail {

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

void yield() { std::this_thread::yield(); }

}  // namespace shmoe::shmem::detail
