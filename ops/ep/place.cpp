#include "ops/ep/place.hpp"

#include <algorithm>
#include <functional>

#include "shmem/layout.hpp"

namespace shmoe::ops {

namespace {

std::uint64_t bytes_of(const RowBuffer& buffer) { return static_cast<std::uint64_t>(buffer.rows) * buffer.row_bytes; }

/// Of a buffer that fits into memory. No slots: nothing.
const shmem::SlotFamily* slots_below(const RowBuffer& buffer, const shmem::SlotPlan& plan) {
  const shmem::Region rows{buffer.at, Bytes{bytes_of(buffer)}};
  const auto& families = plan.families();
  const auto covered = std::ranges::find_if(families, [&](const shmem::SlotFamily& family) {
    return rows.overlaps({family.base, Bytes{shmem::kSlotStride * family.count()}});
  });
  return covered == families.end() ? nullptr : &*covered;
}

}  // namespace

std::optional<Error> place_fault(const RowBuffer& buffer, const runtime::Communicator& comm) {
  if (buffer.rows == 0) return std::nullopt;
  const auto refuse = [&](std::string text) {
    return fault_of(comm.rank(), Errc::invalid_argument, text + ": take a place that Communicator::allocate returns");
  };
  if (buffer.at.value() % buffer.alignment != 0) {
    return refuse(fmt::format("{} at offset {} is no multiple of {}", buffer.name, buffer.at, buffer.alignment));
  }
  const auto lies_in = [&](const shmem::Region& region) {
    if (buffer.at < region.at || buffer.at > region.end()) return false;
    return static_cast<std::uint64_t>(buffer.rows) <= (region.end() - buffer.at).value() / buffer.row_bytes;
  };
  const shmem::BlockMap& map = comm.map();
  const auto where = [&] {
    return fmt::format("{}: {} rows of {} bytes at offset {}", buffer.name, buffer.rows, buffer.row_bytes, buffer.at);
  };
  if (!lies_in(map.heap) && !lies_in(map.user_data)) {
    return refuse(fmt::format("{} lie neither in the heap ([{}, {})) nor in the user data (up to {})", where(),
                              map.heap.at, map.heap.end(), map.user_data.end()));
  }
  const shmem::SlotFamily* slots = slots_below(buffer, comm.slots());
  if (slots == nullptr) return std::nullopt;
  return refuse(fmt::format("{} lie over the slots {} at offset {}, where waits would take them for flags", where(),
                            slots->name, slots->base));
}

OwnMemory own_part(const RowBuffer& buffer, const runtime::Communicator& comm) {
  if (buffer.rows == 0) return {buffer.name, {}};
  return {buffer.name, {comm.mapped_at(comm.rank(), buffer.at), bytes_of(buffer)}};
}

std::optional<Error> overlap_fault(const OwnMemory& a, const OwnMemory& b, Rank rank) {
  const auto end = [](const OwnMemory& memory) { return memory.bytes.data() + memory.bytes.size(); };
  const std::byte* first = std::max(a.bytes.data(), b.bytes.data(), std::less<>{});
  const std::byte* last = std::min(end(a), end(b), std::less<>{});
  if (a.bytes.empty() || b.bytes.empty() || !std::less<>{}(first, last)) return std::nullopt;
  return fault_of(rank, Errc::invalid_argument,
                  fmt::format("{} and {} share {} bytes: one would be overwritten while the other is in use; give each "
                              "memory of its own",
                              a.name, b.name, last - first));
}

}  // namespace shmoe::ops
