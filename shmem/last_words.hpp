#pragma once
// Where the ranks of a failing job settle which of them tells why.
//
//   32 B in the abort region of a rank:  | verdict 8 | teller 8 | unused 16 |
//
// The verdict is of the rank that owns the memory. The teller is the job's, so only the one in rank 0's memory counts.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "shmem/types.hpp"

namespace shmoe::shmem {

class alignas(32) LastWords {
 public:
  /// `verdict` is not 0.
  void leave(std::uint64_t verdict) { verdict_.store(verdict); }
  /// 0: this rank has not failed, as far as one knows.
  [[nodiscard]] std::uint64_t verdict() const { return verdict_.load(); }

  /// True for one rank of all that claim.
  bool claim(Rank rank) {
    std::uint64_t nobody = 0;
    return teller_.compare_exchange_strong(nobody, rank.index() + 1);
  }
  [[nodiscard]] std::optional<Rank> teller() const {
    const std::uint64_t word = teller_.load();
    if (word == 0) return std::nullopt;
    return Rank{word - 1};
  }

 private:
  std::atomic<std::uint64_t> verdict_;
  std::atomic<std::uint64_t> teller_;
};
static_assert(sizeof(LastWords) == 32);

/// Asks every millisecond, until the answer is yes or the limit has passed. For a job that is at its end.
/// Order:   none of its own; the condition's.
void wait_until(const std::function<bool()>& condition, std::chrono::milliseconds limit);

}  // namespace shmoe::shmem
