// clean
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit jobs_back_to_back() {
  return {.name = "H20",
          .what = "ranks that have met meet again at the same address, and no barrier lies in between",
          .expected = "clean",
          .story =
              "As published a fast rank connects for the second time while rank 0 still listens for the first: it is "
              "taken, then reset. Here rank 0 listens no more when it tells the others to go on, so whoever comes back "
              "finds the next listener or tries again.",
          .ranks = 4,
          .run = [](runtime::World& world) -> Result<void> {
            for (int again = 0; again < 3; ++again) {
              const auto next = runtime::World::create(world.config());
              if (!next) return next.error();
            }
            return {};
          }};
}

}  // namespace shmoe::apps
