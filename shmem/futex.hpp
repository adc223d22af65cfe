#pragma once
// The kernel's side of a wait: threads sleep until somebody wakes the word they sleep on.

#include <chrono>
#include <cstdint>
#include <span>

#include <linux/futex.h>

namespace shmoe::shmem {

/// Whether a word is slept on by several processes.
enum class Sharing : std::uint8_t { processes, threads };

/// All that sleep on the word.
void futex_wake(std::uint32_t* word, Sharing sharing);

/// Returns at once where the word is not `expected`; may return early.
void futex_sleep(std::uint32_t* word, std::uint32_t expected, std::chrono::nanoseconds limit, Sharing sharing);
void futex_sleep(std::uint32_t* word, std::uint32_t expected);

/// On several words; where futex_waitv is missing or forbidden, on the first for a moment.
void futex_sleep_any(std::span<const futex_waitv> words, std::chrono::nanoseconds limit, Sharing sharing);

}  // namespace shmoe::shmem
