// clean
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit credits() {
  return {.name = "D0",
          .what = "the protocol as it should be",
          .expected = "clean",
          .story =
              "Wait for the credit, store, fence, notify; wait for the notify, load, give back. It is here so that you "
              "can see what silence looks like: none of the schedules fails.",
          .cores = 2,
          .slots = credit::declare,
          .checked = checked_kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() == Core{1}) return credit::consume_words(context);
            credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
              credit::await_credit(context, target, block, task);
              credit::store(context, target, block, task);
              context.fence(target);
              credit::notify(context, target, block, task);
            });
          })};
}

}  // namespace shmoe::apps
