// deadlock cycle: notify range unlike wait range
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit wait_range_too_long() {
  return {.name = "D6",
          .what = "the loop that notifies leaves out the last task of the loop that stores",
          .expected = "deadlock cycle: notify range unlike wait range",
          .story =
              "Rank 1 stores four tasks and notifies three. The consumer's wait for the fourth sees 0: its data lies "
              "there, and nobody says so. Both loops need the same begin, end and step.",
          .cores = 4,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() != Core{0}) return;
            const Rank peer{1 - context.rank().value()};
            const shmem::SlotFamily& task = context.slots().flag();
            const std::uint32_t stored = 4;
            const std::uint32_t notified = context.rank() == Rank{1} ? stored - 1 : stored;
            for (std::uint64_t round = 1; round <= 2; ++round) {
              for (std::uint32_t t = 0; t < notified; ++t) {
                context.signal(peer, task.at(0, context.rank(), t), shmem::SignalOp::set, round);
              }
              for (std::uint32_t t = 0; t < stored; ++t) {
                context.wait(task.at(0, peer, t), Compare::at_least, round).ordering_only();
              }
            }
          })};
}

}  // namespace shmoe::apps
