#pragma once
// Tells the process that made it from those that were forked from it, without a system call.

#include <utility>

#include "shmem/result.hpp"

namespace shmoe::runtime {

class ProcessMark {
 public:
  /// Errors:  system where there is no page for it.
  static Result<ProcessMark> make();
  ProcessMark(ProcessMark&& other) noexcept : word_(std::exchange(other.word_, nullptr)) {}
  ProcessMark& operator=(ProcessMark&&) = delete;
  ~ProcessMark();

  /// False in a forked child, where the system can tell: Linux from 4.14 on.
  [[nodiscard]] bool holds() const { return *word_ != 0; }

 private:
  explicit ProcessMark(const int* word) : word_(word) {}

  const int* word_;  // in a page that a child finds empty
};

}  // namespace shmoe::runtime
