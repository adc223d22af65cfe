// mismatch
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit groups_differ() {
  return {.name = "H22",
          .what = "the ranks pass different groups to one call",
          .expected = "mismatch",
          .story =
              "Rank 0 calls on ranks 0 and 1, rank 2 on 0 and 2. As published the shards have other sizes, and ranks "
              "wait or mix their rows. Here the barrier of a call compares what all ranks bring, and every rank leaves "
              "with the same error.",
          .ranks = 3,
          .run = [](runtime::World& world) {
            const std::int64_t group = world.rank() == Rank{2} ? 0b101 : 0b011;
            return world.all().barrier(group);
          }};
}

}  // namespace shmoe::apps
