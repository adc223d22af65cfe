#pragma once
// The detour collectives on elements that are all the same: the ranks of a group exchange, the others lend memory.

#include <algorithm>

#include "apps/museum/exhibit.hpp"
#include "ops/detour/published.hpp"
#include "ops/detour/window.hpp"

namespace shmoe::apps::detour {

/// An ipc window whose slots hold so much data beside their flags, and no byte more: all of it is backed.
inline constexpr Bytes kPayload{4096};
inline std::function<void(Rank, runtime::Config&)> window(std::int32_t ranks) {
  const auto pairs = static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(ranks);
  return
      [pairs](Rank, runtime::Config& config) { config.ipc_data = (Bytes{2 * shmem::kMiB} + kPayload) * (2 * pairs); };
}

inline void declare(shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_published_detours(plan, map); }

/// Of fp16.
inline constexpr std::int64_t kElement = 2;

struct Call {
  std::vector<Rank> members;
  std::int64_t elements = 0;

  [[nodiscard]] bool has(Rank rank) const { return std::ranges::find(members, rank) != members.end(); }
  [[nodiscard]] std::vector<std::byte> input() const {
    return std::vector<std::byte>(static_cast<std::size_t>(kElement * elements), std::byte{0x3C});
  }
  /// Of nobody's elements.
  [[nodiscard]] std::vector<std::byte> room(std::int64_t parts = 1) const {
    return std::vector<std::byte>(static_cast<std::size_t>(kElement * elements / parts));
  }
  [[nodiscard]] Result<ops::DetourShape> shape(runtime::Communicator& comm) const {
    const Result<shmem::Region> window = ops::allocate_window(comm);
    if (!window) return window.error();
    return ops::DetourShape{.members = members, .type = ops::Element::fp16, .elements = elements, .window = *window};
  }
};

/// Errors:  as all_to_all_detour; mismatch naming the first element of a member that nobody has written
inline Result<void> all_to_all(runtime::World& world, const Call& call) {
  const auto shape = call.shape(world.all());
  if (!shape) return shape.error();
  const std::vector<std::byte> x = call.input();
  std::vector<std::byte> y = call.room();
  const Result<void> done = ops::all_to_all_detour(world.all(), {.shape = *shape, .x = x, .y = y});
  if (!done || !call.has(world.rank()) || y == x) return done;
  const auto missing = std::ranges::mismatch(y, x).in1 - y.begin();
  return Error{.code = Errc::mismatch,
               .context = fmt::format("element {} of {} on rank {} is as it was before the call", missing / kElement,
                                      call.elements, world.rank()),
               .where = world.rank()};
}

inline Result<void> reduce_scatter(runtime::World& world, const Call& call) {
  const auto shape = call.shape(world.all());
  if (!shape) return shape.error();
  const std::vector<std::byte> x = call.input();
  std::vector<std::byte> y = call.room(std::ssize(call.members));
  return ops::reduce_scatter_detour(world.all(), {.shape = *shape, .x = x, .y = y});
}

}  // namespace shmoe::apps::detour
