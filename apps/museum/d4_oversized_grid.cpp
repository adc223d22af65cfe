// deadlock cycle: oversized grid
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit oversized_grid() {
  return {.name = "D4",
          .what = "twice as many blocks as cores, and all producers stand before all consumers",
          .expected = "deadlock cycle: oversized grid",
          .story =
              "A block runs to its end before the next one gets its core. The first half of the grid, the producers, "
              "fills all buffers and waits for a credit that only a block of the second half could return: it has "
              "not begun, and will not.",
          .cores = 2,
          .slots = credit::declare,
          .run = [](runtime::World& world) {
            return world.all().launch("reverse_all2all", 4, [](runtime::CoreContext& context) {
              if (context.core() == Core{0}) return credit::produce(context);
              if (context.core() == Core{2}) return credit::consume(context);
            });
          }};
}

}  // namespace shmoe::apps
