#include "shmem/huge_pages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shmem/addresses.hpp"
#include "shmem/layout.hpp"

namespace shmoe::shmem {
namespace {

// Newer than the C library's headers: Linux 6.1. Unlike MADV_HUGEPAGE it asks neither how /dev/shm was mounted nor what
// the system does by itself.
constexpr int kMadviseCollapse = 25;
constexpr auto kSmallPage = off_t{4096};
constexpr std::uint64_t kPlenty = 8;

std::string reason(int error) {
  switch (error) {
    case EINVAL: return "the kernel is older than 6.1 or has them switched off";
    case EAGAIN:
    case ENOMEM:
    case EBUSY: return "no free memory in pieces of 2 MiB";
    default: return std::strerror(error);
  }
}

bool has_room(int fd, std::uint64_t bytes) {
  struct statvfs fs {};
  if (fstatvfs(fd, &fs) != 0) return false;
  return fs.f_blocks == 0 || static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize >= bytes;  // no blocks: no limit
}

}  // namespace

void HugePages::back(Offset from, Bytes size) {
  if (has_room(fd_, size.value())) {
    back_areas(from, size);
  } else {
    refusal_ = "/dev/shm has no room for them";
  }
}

void HugePages::spread(Offset from, Bytes size, std::int32_t owners) {
  if (has_room(fd_, kPlenty * size.value() * static_cast<std::uint64_t>(owners))) back_areas(from, size);
}

void HugePages::back_areas(Offset from, Bytes size) {
  const std::uint64_t first = round_up(from.value(), kPageGranule) / kPageGranule;
  const std::uint64_t last = (from.value() + size.value()) / kPageGranule;
  if (first >= last || reinterpret_cast<std::uintptr_t>(base_) % kPageGranule != 0) return;
  if (tried_.size() < last) tried_.resize(last);
  // One call for each run of areas: the kernel first empties the queues of all CPUs, which takes longer than a page.
  for (std::uint64_t area = first; area < last;) {
    std::uint64_t end = area;
    while (end < last && !tried_[end]) tried_[end++] = true;
    if (end > area) collapse(area, end);
    area = std::max(end, area + 1);
  }
}

void HugePages::collapse(std::uint64_t first, std::uint64_t last) {
  // An area without any page is none to the kernel.
  for (std::uint64_t area = first; area < last; ++area) {
    if (fallocate(fd_, 0, static_cast<off_t>(area * kPageGranule), kSmallPage) != 0) {
      refusal_ = reason(errno);
      return;
    }
  }
  if (!collapse_pages({base_ + first * kPageGranule, (last - first) * kPageGranule})) refusal_ = reason(errno);
}

bool collapse_pages(std::span<std::byte> areas) { return madvise(areas.data(), areas.size(), kMadviseCollapse) == 0; }

std::optional<std::string> why_no_huge_pages() {
  const int fd = memfd_create("shmoe", MFD_CLOEXEC);
  if (fd < 0) return reason(errno);
  std::optional<std::string> why = reason(ENOMEM);
  const std::optional<Addresses> place = Addresses::reserve(kPageGranule);
  if (place && ftruncate(fd, kPageGranule) == 0 &&
      mmap(place->data(), kPageGranule, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
    HugePages pages(fd, place->data());
    pages.back(Offset{0}, Bytes{kPageGranule});
    why = pages.refusal();
  }
  close(fd);
  return why;
}

}  // namespace shmoe::shmem
