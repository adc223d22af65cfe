// mismatch
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit groups_differ() {
  return {.name = "H22",
          .what = "the ranks pass different groups to one call",
          .expected = "mismatch",
          .story =
              "Ranks 0 and 1 call on themselves, rank 2 on 0 and 2. As published the shards have other sizes, and "
              "ranks wait or mix their rows. In the profile safe the entry compares what all ranks bring, and every "
              "rank leaves with the same error.",
          .ranks = 3,
          .settings = [](Rank, runtime::Config& config) { config.ipc_data = Bytes{shmem::kMiB}; },
          .run =
              [](runtime::World& world) {
                const Rank partner{world.rank() == Rank{2} ? 2 : 1};
                return detour::all_to_all(world, {.members = {Rank{0}, partner}, .elements = 4});
              }};
}

}  // namespace shmoe::apps
