// failed
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_credit_awaited() {
  return {
      .name = "D11",
      .what = "the producer does not wait for its credit",
      .expected = "failed",
      .story =
          "As long as the consumer keeps up all is well. When it does not, the producer stores block 2 over block 0, "
          "which nobody has read, and its notify of a full slot is lost. The consumer finds the word of another "
          "block. In strict mode a live job is refused at that notify.",
      .cores = 2,
      .slots = credit::declare,
      .checked = checked_kernel("reverse_all2all", [](runtime::CoreContext& context) {
        if (context.core() == Core{1}) return credit::consume_words(context);
        credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
          credit::store(context, target, block, task);
          context.fence(target);
          credit::notify(context, target, block, task);
        });
      })};
}

}  // namespace shmoe::apps
