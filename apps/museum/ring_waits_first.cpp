// deadlock cycle: wait before notify
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit ring_waits_first() {
  return {.name = "RING",
          .what = "every rank of a ring waits for its neighbour before it signals the other",
          .expected = "deadlock cycle: wait before notify",
          .story =
              "The beginner's deadlock: correct on each rank alone, and nobody is the first. One rank at least must "
              "signal before it waits.",
          .ranks = 4,
          .run = kernel("ring", [](runtime::CoreContext& context) {
            const Rank right{(context.rank().value() + 1) % context.ranks()};
            const Rank left{(context.rank().value() + context.ranks() - 1) % context.ranks()};
            const shmem::SlotFamily& flag = context.slots().flag();
            context.wait(flag.at(0, left), Compare::at_least, 1).ordering_only();
            context.signal(right, flag.at(0, context.rank()), shmem::SignalOp::set, 1);
          })};
}

}  // namespace shmoe::apps
