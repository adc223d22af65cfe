// orphan wait: operator left out
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit operator_left_out() {
  return {.name = "LEFT",
          .what = "a rank without tokens does not come to combine, and is done",
          .expected = "orphan wait: operator left out",
          .story =
              "Rank 2 has nothing to combine and ends in good order: it has not died, and so is not lost. The others "
              "wait for it in combine, and it has called one operator less. Where it goes on to another operator "
              "instead, the order differs: S8. A rank without tokens has to take part.",
          .ranks = 3,
          .finalize = false,
          .run = [](runtime::World& world) -> Result<void> {
            if (Result<void> done = barriers(world, "dispatch", 1); !done) return done;
            return world.rank() == Rank{2} ? Result<void>{} : barriers(world, "combine", 1);
          }};
}

}  // namespace shmoe::apps
