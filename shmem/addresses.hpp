#pragma once
// A run of addresses, 2-MiB aligned, as huge pages need it.

#include <cstddef>
#include <optional>

namespace shmoe::shmem {

/// Nothing is mapped there at first. Whatever its holder maps there goes with it.
class Addresses {
 public:
  /// Rounded up to 2 MiB.
  /// Errors:  nothing where the address space is limited (ulimit -v); errno says why.
  static std::optional<Addresses> reserve(std::size_t size);
  Addresses(Addresses&& other) noexcept;
  Addresses& operator=(Addresses&& other) noexcept;
  ~Addresses();

  [[nodiscard]] std::byte* data() const { return base_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Addresses(std::byte* base, std::size_t size) : base_(base), size_(size) {}
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace shmoe::shmem
