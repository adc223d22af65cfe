#include "tests/steady/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count = 0;

void* counted(std::size_t size, std::size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  // The size of an aligned block is a multiple of its alignment.
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* place = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (place == nullptr) throw std::bad_alloc();
  return place;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, std::size_t /*size*/) noexcept { std::free(place); }
void operator delete(void* place, std::align_val_t /*alignment*/) noexcept { std::free(place); }
void operator delete(void* place, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept { std::free(place); }

namespace shmoe::test {

std::uint64_t allocations() { return count.load(); }

}  // namespace shmoe::test
