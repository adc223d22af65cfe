// overrun: buffer reused too early
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit only_one_direction() {
  return {
      .name = "H11",
      .what = "three calls of a2e, and no e2a comes back",
      .expected = "overrun: buffer reused too early",
      .story =
          "The attention rank sends and never waits for the expert. Its third call uses the half of the first, which "
          "the expert has not seen: it looks for 0x100000000 and finds 0x300000000. An e2a between two calls of a2e "
          "with equal parity is what makes two halves enough.",
      .cores = 4,
      .profile = kFaithful202607,
      .faults = "rank 0 in a2e launch 1 wait 1: late",
      .slots = afd::declare,
      .run = [](runtime::World& world) -> Result<void> {
        start_from_zero(world);
        Result<afd::Side> side = afd::Side::on(world.all(), {});
        if (!side) return side.error();
        for (int call = 0; call < 3; ++call) {
          if (Result<void> done = side->a2e(); !done) return done;
        }
        return {};
      }};
}

}  // namespace shmoe::apps
