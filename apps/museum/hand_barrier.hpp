#pragma once
// A barrier written by hand, for exhibits that leave out a part of it.
//
//   quiet | SyncAll | core 0: tell, hear | SyncAll

#include "apps/museum/ep.hpp"

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

/// Rows to all ranks, the barrier with those of its SyncAlls that are asked for, and a look at the rows of all.
inline void exchange(runtime::CoreContext& context, bool first_sync_all, bool last_sync_all) {
  WordTable rows(context, ep::kRows);
  rows.write(1);
  context.quiet();
  shmem::Witness ordered = shmem::Witness::own();
  if (first_sync_all) ordered = context.sync_all();
  if (context.core() == Core{0}) {
    tell(context, 1, 1);
    ordered = hear(context, 1, 1);
  }
  if (last_sync_all) ordered = context.sync_all();
  ep::each_rank(context, [&](Rank source) { rows.expect_all(source, 1, ordered); });
}

}  // namespace shmoe::apps::hand
