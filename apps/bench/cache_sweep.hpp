#pragma once
// Makes caches cold by going through more memory than they hold.

#include <algorithm>
#include <cstdint>

#include <unistd.h>

#include "apps/bench/row_buffer.hpp"

namespace shmoe::apps {

/// All ranks sweep at the same time: together they go through twice the last level, each through four times its own.
class CacheSweep {
 public:
  explicit CacheSweep(std::int32_t ranks) : memory_(bytes_for(ranks)) {}

  void run() {
    for (std::byte& line : memory_.bytes()) line ^= std::byte{1};
  }

 private:
  static std::size_t size_of_cache(int name, std::size_t unknown) {
    const long size = ::sysconf(name);
    return size > 0 ? static_cast<std::size_t>(size) : unknown;
  }
  static std::size_t bytes_for(std::int32_t ranks) {
    const std::size_t shared = size_of_cache(_SC_LEVEL3_CACHE_SIZE, std::size_t{32} << 20);
    const std::size_t own = size_of_cache(_SC_LEVEL2_CACHE_SIZE, std::size_t{1} << 20);
    return std::max(4 * own, 2 * shared / static_cast<std::size_t>(ranks));
  }

  RowBuffer memory_;
};

}  // namespace shmoe::apps
