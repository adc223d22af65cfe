// overrun: operator order differs
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit kernel_left_out() {
  return {.name = "S8",
          .what = "a rank without tokens does not launch dispatch and goes on to combine",
          .expected = "overrun: operator order differs",
          .story =
              "Rank 1's combine takes the round that the others use for dispatch, and its barrier satisfies their "
              "entry barrier. At their exit they wait for its (magic, 2), and find the word of "
              "its next kernel. A rank without tokens must take part; in the profile safe "
              "the handshake says so on every rank before anybody waits.",
          .profile = kFaithful202608,
          .run = [](runtime::World& world) -> Result<void> {
            if (Result<void> done = barriers(world, "notify", 1); !done) return done;
            if (world.rank() != Rank{1}) {
              if (Result<void> done = barriers(world, "dispatch", 2); !done) return done;
            }
            return barriers(world, "combine", 1);
          }};
}

}  // namespace shmoe::apps
