#include "shmem/addresses.hpp"

#include <cstdint>
#include <utility>

#include <sys/mman.h>

#include "shmem/layout.hpp"

namespace shmoe::shmem {

std::optional<Addresses> Addresses::reserve(std::size_t size) {
  size = round_up(size, kPageGranule);
  void* place = mmap(nullptr, size + kPageGranule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return std::nullopt;
  // The kernel aligns to small pages only: what is before the first aligned address, and what is left behind, goes back.
  auto* raw = static_cast<std::byte*>(place);
  const auto start = reinterpret_cast<std::uintptr_t>(raw);
  const std::size_t before = round_up(start, kPageGranule) - start;
  if (before > 0) munmap(raw, before);
  munmap(raw + before + size, kPageGranule - before);
  return Addresses(raw + before, size);
}

Addresses::Addresses(Addresses&& other) noexcept { *this = std::move(other); }

Addresses& Addresses::operator=(Addresses&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  return *this;
}

Addresses::~Addresses() {
  if (base_ != nullptr) munmap(base_, size_);
}

}  // namespace shmoe::shmem
