// deadlock cycle: merged notifies
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit merged_signals() {
  return {.name = "D12",
          .what = "one notify phase behind all blocks, with fewer buffers than blocks",
          .expected = "deadlock cycle: merged notifies",
          .story =
              "The flattened loop stores the rows of every block and notifies afterwards. Coming back to a buffer the "
              "producer finds its slot 0, not because it was given back but because it was never filled, and stores "
              "over unread rows. Then two notifies of one slot become one, and a consumer waits for the second. In "
              "strict mode the first notify of a full slot is refused "
              "at the call.",
          .cores = 2,
          .strict = false,
          .slots = credit::declare,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() == Core{0}) {
              credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
                const Slot mine = credit::slot(context, block, context.rank(), task);
                context.signal(target, mine, shmem::SignalOp::set, 1);
              });
            }
            context.sync_all();
            if (context.core() == Core{1}) credit::consume(context);
          })};
}

}  // namespace shmoe::apps
