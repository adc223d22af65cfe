// peer lost
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit peer_dies() {
  return {.name = "D26",
          .what = "one rank is killed in a barrier",
          .expected = "peer lost",
          .story =
              "Published kernels spin for ever when a peer is gone. Here every survivor names it within a second, and "
              "says that it died: no fault of the protocol.",
          .ranks = 3,
          .faults = "rank 1 in step launch 2 wait 1: kill",
          .run = [](runtime::World& world) -> Result<void> {
            for (int step = 0; step < 3; ++step) {
              if (Result<void> done = barriers(world, "step", 1); !done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
