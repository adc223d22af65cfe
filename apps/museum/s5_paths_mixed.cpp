// overrun: two paths on one region
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit paths_mixed() {
  return {.name = "S5",
          .what = "both paths use one communicator, and the low-latency flags lie over the rounds of the normal path",
          .expected = "overrun: two paths on one region",
          .story =
              "As published, the flag of source rank 0 and the round of core 0 are the same 8 bytes. Kernels of the "
              "normal path bring all cores to round 5. A low-latency combine sets the word to 1.0 and clears it, so "
              "core 0 of every rank is at round 0 where core 1 is at 5, and they choose two buffers. A region of its "
              "own for each path cures it.",
          .cores = 2,
          .profile = kFaithful202607,
          .strict = false,
          .slots = ops::declare_low_latency,
          .run = [](runtime::World& world) -> Result<void> {
            for (int step = 0; step < 4; ++step) {
              if (Result<void> done = barriers(world, "notify", 1); !done) return done;
            }
            ll::Layer layer(world.all(), {.ids = {0, 1}});
            Result<void> done = ll::run(layer, {&ll::Layer::dispatch, &ll::Layer::combine});
            return done ? barriers(world, "notify", 1) : done;
          }};
}

}  // namespace shmoe::apps
