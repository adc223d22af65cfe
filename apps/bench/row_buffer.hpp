#pragma once
// Memory for rows on the best terms an ordinary process gets: whole huge pages where the system gives them, so that no
// contender loses to where its rows lie.

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include <sys/mman.h>

#include "shmem/types.hpp"

namespace shmoe::apps {

class RowBuffer {
 public:
  RowBuffer() = default;
  /// Zeroed, and every page is there already.
  /// Errors:  std::bad_alloc
  explicit RowBuffer(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    mapped_ = round_up(bytes, kHugePage) + kHugePage;
    void* place = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc{};
    base_ = static_cast<std::byte*>(place);
    static_cast<void>(::madvise(base_, mapped_, MADV_HUGEPAGE));  // a hint; without it the pages are small
    std::memset(data(), 0, size_);
  }
  RowBuffer(RowBuffer&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        mapped_(std::exchange(other.mapped_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  RowBuffer& operator=(RowBuffer&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(mapped_, other.mapped_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~RowBuffer() {
    if (base_ != nullptr) ::munmap(base_, mapped_);
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size_}; }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t first, std::size_t count) const {
    return bytes().subspan(first, count);
  }
  [[nodiscard]] std::byte* data() const {
    if (base_ == nullptr) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(base_);
    return base_ + (round_up(address, kHugePage) - address);
  }

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  std::byte* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t size_ = 0;
};

}  // namespace shmoe::apps
