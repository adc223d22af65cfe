// deadlock cycle: host clear unaligned
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit host_clears_late() {
  return {.name = "D3",
          .what = "a host clears its slots between two launches, and no barrier keeps the peer from having begun",
          .expected = "deadlock cycle: host clear unaligned",
          .story =
              "Rank 1's signal of the second launch has arrived when rank 0's host clears the slots for it. The "
              "ledger of rank 1 says what it wrote, the slot is 0, and nobody who may write it took it away. Clear "
              "first, then meet all ranks in a barrier, then launch.",
          .run = [](runtime::World& world) -> Result<void> {
            runtime::Communicator& comm = world.all();
            const auto signal = comm.launch("store", [](runtime::CoreContext& context) {
              const Rank peer{1 - context.rank().value()};
              context.signal(peer, context.slots().flag().at(0, context.rank()), shmem::SignalOp::set, 1);
            });
            if (!signal) return signal;
            if (Result<void> met = comm.barrier(); !met) return met;
            if (world.rank() == Rank{0}) {
              for (std::uint64_t& word : comm.local<std::uint64_t>(comm.map().flags.at, 8)) word = 0;
            }
            return comm.launch("load", [](runtime::CoreContext& context) {
              const Rank peer{1 - context.rank().value()};
              const Slot from_peer = context.slots().flag().at(0, peer);
              context.wait(from_peer, Compare::equal, 1).ordering_only();
              if (context.rank() == Rank{1}) context.wait(from_peer, Compare::equal, 2).ordering_only();
            });
          }};
}

}  // namespace shmoe::apps
