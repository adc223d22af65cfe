#pragma once
// Pages of 2 MiB for shared objects: a rank that reads or writes its peers' rows for the first time takes one fault for
// each page, and its address translations fit in the CPU.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shmem/types.hpp"

namespace shmoe::shmem {

/// The pages of one object, by the owner's mapping of it.
class HugePages {
 public:
  HugePages() = default;
  /// `base`: where the object `fd` is mapped.
  HugePages(int fd, std::byte* base) : fd_(fd), base_(base) {}

  /// Backs the whole 2-MiB areas within the range, each once, with huge pages. Where that cannot be they stay as they
  /// are. Uses no memory that the range would not use with small pages; none where /dev/shm has not room for it all.
  void back(Offset from, Bytes size);
  /// The same for a range that would not be used whole, where so many owners that do it take less than an eighth of the
  /// room in /dev/shm.
  void spread(Offset from, Bytes size, std::int32_t owners);

  /// Why areas have small pages; nothing where all have huge ones, or there was none yet.
  [[nodiscard]] const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  void back_areas(Offset from, Bytes size);
  void collapse(std::uint64_t first, std::uint64_t last);

  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::vector<bool> tried_;
  std::optional<std::string> refusal_;
};

/// Makes huge pages of whole 2-MiB areas, each of which has a page already. Whether it did; errno says why not.
bool collapse_pages(std::span<std::byte> areas);

/// Tries with an object of its own.
std::optional<std::string> why_no_huge_pages();

}  // namespace shmoe::shmem
