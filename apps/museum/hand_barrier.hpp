#pragma once
// A barrier written by hand, for exhibits that leave out a part of it.
//
//   quiet | SyncAll | core 0: tell, hear | SyncAll

#include "apps/museum/exhibit.hpp"

namespace shmoe::apps::hand {

/// This core to every other rank.
/// Order:   none: a quiet before it orders what was sent
inline void tell(runtime::CoreContext& context, std::uint64_t buffer, std::uint64_t word) {
  for (Rank rank{0}; rank.value() < context.ranks(); ++rank) {
    if (rank == context.rank()) continue;
    context.signal(rank, context.slots().flag().at(buffer, context.rank()), shmem::SignalOp::set, word);
  }
}

/// From every other rank.
/// Order:   what they completed before they told is readable
inline shmem::Witness hear(runtime::CoreContext& context, std::uint64_t buffer, std::uint64_t word) {
  shmem::Witness all = shmem::Witness::own();
  for (Rank rank{0}; rank.value() < context.ranks(); ++rank) {
    if (rank == context.rank()) continue;
    all = consume_token(context.wait(context.slots().flag().at(buffer, rank), Compare::equal, word));
  }
  return all;
}

}  // namespace shmoe::apps::hand
