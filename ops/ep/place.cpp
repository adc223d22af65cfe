#include "ops/ep/place.hpp"

namespace shmoe::ops {

std::optional<Error> place_fault(const RowBuffer& buffer, const shmem::BlockMap& map, Rank rank) {
  const auto lies_in = [&](const shmem::Region& region) {
    if (buffer.at < region.at || buffer.at > region.end()) return false;
    return static_cast<std::uint64_t>(buffer.rows) <= (region.end() - buffer.at).value() / buffer.row_bytes;
  };
  if (buffer.rows == 0 || lies_in(map.heap) || lies_in(map.user_data)) return std::nullopt;
  return fault_of(rank, Errc::invalid_argument,
                  fmt::format("{}: {} rows of {} bytes at offset {} lie neither in the heap ([{}, {})) nor in the user "
                              "data (up to {}): take it from allocate",
                              buffer.name, buffer.rows, buffer.row_bytes, buffer.at, map.heap.at, map.heap.end(),
                              map.user_data.end()));
}

}  // namespace shmoe::ops
