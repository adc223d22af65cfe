// orphan wait: operator left out
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit non_member_skips() {
  return {.name = "H2",
          .what = "a rank that is no member of a group skips the call that all ranks must make",
          .expected = "orphan wait: operator left out",
          .story =
              "The magic of the detour operators counts calls, also those in which a rank moves nothing. Rank 2 takes "
              "itself for no member, makes one call less, and is done while the others wait for it in their last "
              "barrier.",
          .ranks = 3,
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            const int calls = world.rank() == Rank{2} ? 1 : 2;
            for (int call = 0; call < calls; ++call) {
              if (Result<void> done = barriers(world, "all_to_all", 1); !done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
