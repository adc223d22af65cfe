#pragma once
// The fences the hardware needs.

#include <atomic>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace shmoe::shmem {

/// Order:   this core's earlier stores, streaming ones included, before its later stores. Only the core that issued
///          streaming stores can order them.
inline void store_fence() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Order:   this core's earlier stores before its later loads.
inline void full_fence() {
#if defined(__x86_64__)
  __asm__ __volatile__("lock; addl $0, (%%rsp)" ::: "memory", "cc");  // in half the time of an mfence
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace shmoe::shmem
