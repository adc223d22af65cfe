// deadlock cycle: missing notify
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit group_of_one() {
  return {.name = "H5",
          .what = "a reduce-scatter of a group of one: nobody is there to reduce with, and the last step is awaited",
          .expected = "deadlock cycle: missing notify",
          .story =
              "Core 0 starts the sum with the own chunk. Cores 1 and 2 add what C - 1 others have sent, tell their "
              "progress behind each, and then wait for the progress of step C - 1. With C = 1 there is no step, so "
              "nobody ever tells it: they want 0x100000000 and see 0. A group of one has nothing to wait for.",
          .cores = 3,
          .profile = kFaithful202607,
          .settings = detour::window(2),
          .slots = detour::declare,
          .run = [](runtime::World& world) {
            start_from_zero(world);
            return detour::reduce_scatter(world, {.members = {Rank{0}}, .elements = 4});
          }};
}

}  // namespace shmoe::apps
