// unordered read
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit slot_of_last_launch() {
  return {
      .name = "D23",
      .what = "the slots of the first launch are used in the second one, and nobody has cleared them",
      .expected = "unordered read",
      .story =
          "The slot still says 1. The second launch's wait ends at once, and the consumer reads the row of the first "
          "launch or half of the second one's. Nothing hangs. A word that grows with the launch needs no clearing.",
      .checked = [](runtime::Communicator& comm) -> Result<void> {
        for (int launch = 0; launch < 2; ++launch) {
          const Result<void> done = comm.launch("udma", [launch](runtime::CoreContext& context) {
            const Slot slot = context.slots().flag().at(0, Rank{0});
            std::uint64_t word = 1;
            const Offset row{8 * static_cast<std::uint64_t>(launch)};
            if (context.rank() == Rank{0}) {
              context.put(Rank{1}, row, std::span<const std::uint64_t>{&word, 1});
              context.fence(Rank{1});
              context.signal(Rank{1}, slot, shmem::SignalOp::set, 1);
            } else {
              const shmem::Witness there = consume_token(context.wait(slot, Compare::equal, 1));
              context.get(Rank{1}, row, std::span{&word, 1}, there);
            }
          });
          if (!done) return done;
        }
        return {};
      }};
}

}  // namespace shmoe::apps
