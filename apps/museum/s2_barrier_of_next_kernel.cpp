// overrun: buffer reused too early
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit barrier_of_next_kernel() {
  return {.name = "S2",
          .what = "the first barrier of combine overtakes the last one of dispatch",
          .expected = "overrun: buffer reused too early",
          .story =
              "The August state counts the barriers of a kernel as well, so entry and exit of dispatch lie in two "
              "buffers; but the exit barrier (magic, 2) and the next kernel's entry (magic + 1, 1) share one. Rank 1 "
              "looks late at the exit of dispatch, rank 0 is in combine already. The same cures as of S1.",
          .profile = kFaithful202608,
          .faults = "rank 1 in dispatch wait 2: late",
          .run = [](runtime::World& world) -> Result<void> {
            if (Result<void> done = barriers(world, "notify", 1); !done) return done;
            if (Result<void> done = barriers(world, "dispatch", 2); !done) return done;
            return barriers(world, "combine", 1);
          }};
}

}  // namespace shmoe::apps
