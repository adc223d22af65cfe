// orphan wait: missing notify
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit too_few_cores() {
  return {.name = "H6",
          .what = "a core for each shard, and fewer cores than shards",
          .expected = "orphan wait: missing notify",
          .story =
              "A reduce-scatter of ranks 0 to 2 over the memory of rank 3 sends two shards to each of two ranks, a "
              "core each beside core 0: five cores, and there are four. The second shard for the last rank is sent by "
              "nobody. Core 2 of rank 2 waits in the memory of rank 3 for 0x100000001 of rank 0, and sees 0. Shards "
              "have to be shared among the cores, however many there are.",
          .ranks = 4,
          .cores = 4,
          .profile = kFaithful202607,
          .settings = detour::window(4),
          .slots = detour::declare,
          .run = [](runtime::World& world) {
            start_from_zero(world);
            return detour::reduce_scatter(world, {.members = {Rank{0}, Rank{1}, Rank{2}}, .elements = 12});
          }};
}

}  // namespace shmoe::apps
