#pragma once
// Memory of ranks that are threads of one process: the same blocks as in segments, in plain anonymous mappings.

#include <vector>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

class ThreadMemory {
 public:
  /// `count` areas of `size` zero bytes each, committed on first touch.
  /// Errors:  system.
  static Result<ThreadMemory> allocate(std::size_t count, Bytes size);
  ThreadMemory(ThreadMemory&& other) noexcept;
  ThreadMemory& operator=(ThreadMemory&&) = delete;
  ~ThreadMemory();
  [[nodiscard]] std::byte* at(std::size_t index) const { return base_ + index * stride_; }

 private:
  ThreadMemory(std::byte* base, std::size_t length, std::size_t stride)
      : base_(base), length_(length), stride_(stride) {}
  std::byte* base_;
  std::size_t length_;
  std::size_t stride_;
};

}  // namespace shmoe::shmem
