#pragma once
// Memory for rows on the best terms an ordinary process gets: whole huge pages where the system gives them, so that no
// contender loses to where its rows lie.

#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include <sys/mman.h>

#include "shmem/addresses.hpp"

namespace shmoe::apps {

class RowBuffer {
 public:
  RowBuffer() = default;
  /// Zeroed, and every page is there already.
  /// Errors:  std::bad_alloc
  explicit RowBuffer(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    addresses_ = shmem::Addresses::reserve(bytes);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (!addresses_) throw std::bad_alloc{};
    const std::size_t mapped = addresses_->size();
    if (::mmap(data(), mapped, PROT_READ | PROT_WRITE, kFlags, -1, 0) == MAP_FAILED) throw std::bad_alloc{};
    static_cast<void>(::madvise(data(), mapped, MADV_HUGEPAGE));  // a hint; without it the pages are small
    std::memset(data(), 0, size_);
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size_}; }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t first, std::size_t count) const {
    return bytes().subspan(first, count);
  }
  [[nodiscard]] std::byte* data() const { return addresses_ ? addresses_->data() : nullptr; }

 private:
  std::optional<shmem::Addresses> addresses_;
  std::size_t size_ = 0;
};

}  // namespace shmoe::apps
