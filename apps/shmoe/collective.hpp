#pragma once
// Two collective helpers of the programs: to fail together, and to bring figures together.

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/communicator.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::apps {

/// Every rank passes what went wrong with it, if anything.
/// Order:   barrier over all ranks
/// Errors:  the error of one of the ranks, the same on all of them
Result<void> agree(runtime::Communicator& comm, std::string_view what, const std::optional<Error>& mine);

/// Every rank's record, by rank. `place` is symmetric, of one record, and free for other use afterwards only after a
/// further barrier.
/// Order:   record written -> barrier -> get from every rank
/// Errors:  as Communicator::launch
template <shmem::Plain Record>
Result<std::vector<Record>> gather(runtime::Communicator& comm, Offset place, const Record& mine) {
  std::vector<Record> all(static_cast<std::size_t>(comm.ranks()));
  comm.local<Record>(place, 1)[0] = mine;
  auto gathered = comm.launch("gather", [&](runtime::CoreContext& context) {
    runtime::ZeroBufferSync sync(context);
    const shmem::Witness written = sync.barrier_all();
    const Slice slice = context.slice(comm.ranks());
    for (std::int64_t rank = slice.first; rank < slice.last; ++rank) {
      context.get(Rank{rank}, place, std::span{&all[static_cast<std::size_t>(rank)], 1}, written);
    }
  });
  if (!gathered) return std::move(gathered).error();
  return all;
}

}  // namespace shmoe::apps
