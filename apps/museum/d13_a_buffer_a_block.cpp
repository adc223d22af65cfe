// clean
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit a_buffer_a_block() {
  return {.name = "D13",
          .what = "one notify phase behind all blocks, with as many buffers as blocks",
          .expected = "clean",
          .story =
              "The same flattened loop as in D12. No buffer is used twice, so no two notifies meet in one slot: it is "
              "right, and takes memory for all blocks.",
          .cores = 2,
          .slots = credit::declare,
          .checked = checked_kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() == Core{1}) {
              return credit::each_task(
                  context,
                  [&](std::uint32_t block, Rank source, std::uint32_t task) {
                    credit::load(context, source, block, task, credit::take(context, source, block, task));
                  },
                  credit::kBuffers);
            }
            const auto each = [&](auto act) { credit::each_task(context, act, credit::kBuffers); };
            each([&](std::uint32_t block, Rank target, std::uint32_t task) {
              credit::store(context, target, block, task);
            });
            context.quiet();
            each([&](std::uint32_t block, Rank target, std::uint32_t task) {
              credit::notify(context, target, block, task);
            });
          })};
}

}  // namespace shmoe::apps
