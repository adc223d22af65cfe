// deadlock cycle: credit return missing
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit credit_missing() {
  return {.name = "D1",
          .what = "the consumer reads its slots and never gives them back",
          .expected = "deadlock cycle: credit return missing",
          .story =
              "As long as there are no more blocks than buffers all is well, and small shapes pass. The first block "
              "that uses a buffer again finds its slots full: the producers wait for 0 and see 1, for ever, while the "
              "consumers have seen the old 1, read old rows, and ended.",
          .cores = 2,
          .slots = credit::declare,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() == Core{0}) return credit::produce(context);
            credit::each_task(context, [&](std::uint32_t block, Rank source, std::uint32_t task) {
              credit::take(context, source, block, task);
            });
          })};
}

}  // namespace shmoe::apps
