#pragma once
// Credits: slots that hold the whole state of a buffer. 0 is free, 1 is full.

#include <string>
#include <string_view>

#include "shmem/signal.hpp"

namespace shmoe::ops::tile {

// [credits]
/// Slot [buffer][source][event] at each rank, for all ranks as sources. Its source sets it, its owner sets it back.
inline shmem::SlotFamily declare_credits(shmem::SlotPlan& plan, std::string_view name, Offset base,
                                         std::int64_t buffers, std::int64_t events = 1) {
  return plan.declare({.name = std::string(name),
                       .base = base,
                       .buffers = static_cast<std::uint32_t>(buffers),
                       .sources = static_cast<std::uint32_t>(plan.ranks()),
                       .events = static_cast<std::uint32_t>(events),
                       .writers = shmem::Writers::source_and_owner});
}
// [/credits]

}  // namespace shmoe::ops::tile
