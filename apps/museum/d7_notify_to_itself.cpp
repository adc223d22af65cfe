// misdirected notify: notify to the wrong rank
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit notify_to_itself() {
  return {.name = "D7",
          .what = "the producer notifies its own rank where it should notify the target",
          .expected = "misdirected notify: notify to the wrong rank",
          .story =
              "The rows go to the target and the signals stay at home. Within a rank all is well; the group of every "
              "other source waits at slots that nobody has ever written.",
          .cores = 2,
          .strict = false,
          .slots = credit::declare,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() == Core{1}) return credit::consume(context);
            credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
              credit::await_credit(context, target, block, task);
              credit::notify(context, context.rank(), block, task);
            });
          })};
}

}  // namespace shmoe::apps
