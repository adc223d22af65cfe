#include "shmem/thread_memory.hpp"

#include <cerrno>
#include <utility>

#include <sys/mman.h>

#include "shmem/layout.hpp"

namespace shmoe::shmem {

Result<ThreadMemory> ThreadMemory::allocate(std::size_t count, Bytes size) {
  const std::size_t stride = round_up(size.value(), kPageGranule);
  void* place =
      mmap(nullptr, stride * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    return Error{
        .code = Errc::system,
        .context = fmt::format("mapping {} areas of {} bytes: raise `ulimit -v`, or lower SHMOE_HEAP", count, stride),
        .sys = errno};
  }
  return ThreadMemory(static_cast<std::byte*>(place), stride * count, stride);
}

ThreadMemory::ThreadMemory(ThreadMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), length_(other.length_), stride_(other.stride_) {}

ThreadMemory::~ThreadMemory() {
  if (base_ != nullptr) munmap(base_, length_);
}

}  // namespace shmoe::shmem
