#pragma once
// Bytes of a core's workspace, as they are.

#include <cstddef>
#include <memory_resource>
#include <span>

namespace shmoe::ops {

class Scratch {
 public:
  Scratch(std::pmr::memory_resource* memory, std::size_t size)
      : memory_(memory), size_(size), bytes_(static_cast<std::byte*>(memory->allocate(size, kAlignment))) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { memory_->deallocate(bytes_, size_, kAlignment); }

  [[nodiscard]] std::span<std::byte> bytes() const { return {bytes_, size_}; }

 private:
  static constexpr std::size_t kAlignment = 64;  // a cache line: vectors lie within one

  std::pmr::memory_resource* memory_;
  std::size_t size_;
  std::byte* bytes_;
};

}  // namespace shmoe::ops
