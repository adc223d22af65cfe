// misdirected notify: slot formula drift
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit own_group() {
  return {.name = "D8",
          .what = "the producer computes its slot from the target where the consumer expects the source",
          .expected = "misdirected notify: slot formula drift",
          .story =
              "Rank 0 fills task 1 where task 0 is due, as a formula does that takes the flat task number for the "
              "number within its source. One slot is filled twice as often as it should be, its neighbour never, and "
              "the consumer waits at the neighbour.",
          .cores = 2,
          .slots = credit::declare,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() == Core{1}) return credit::consume(context);
            credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
              const bool faulty = context.rank() == Rank{0} && target == Rank{1};
              credit::fill(context, target, block, faulty ? 1 : task);
            });
          })};
}

}  // namespace shmoe::apps
