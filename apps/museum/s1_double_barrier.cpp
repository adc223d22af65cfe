// overrun: two barriers in one epoch
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit double_barrier() {
  return {.name = "S1",
          .what = "dispatch has two barriers in one buffer, and the second overtakes the first",
          .expected = "overrun: two barriers in one epoch",
          .story =
              "The published July kernels choose the barrier's buffer by the parity of the kernel and compare for "
              "equality. Rank 1 has signalled the entry barrier of dispatch and looks late. Rank 0 sees its signal, "
              "goes on, and signals the exit barrier: into the same slot. Rank 1 looks for (magic, 1) and finds "
              "(magic, 2), for ever; rank 0 waits for its exit signal. >= instead of == cures it, or a buffer by the "
              "count of barriers.",
          .profile = kFaithful202607,
          .faults = "rank 1 in dispatch wait 1: late",
          .run = [](runtime::World& world) -> Result<void> {
            if (Result<void> done = barriers(world, "notify", 1); !done) return done;
            if (Result<void> done = barriers(world, "dispatch", 2); !done) return done;
            return barriers(world, "combine", 1);
          }};
}

}  // namespace shmoe::apps
