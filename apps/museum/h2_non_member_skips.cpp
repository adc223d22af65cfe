// orphan wait: operator order differs
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit non_member_skips() {
  return {.name = "H2",
          .what = "a rank that is no member of a group skips the call that all ranks must make",
          .expected = "orphan wait: operator order differs",
          .story =
              "Ranks 0 and 1 exchange, then ranks 0 and 2, and each rank makes only the calls it is a member of. The "
              "magic of the detours counts calls, also those in which a rank moves nothing: in the second one rank 0 "
              "waits for 0x200000001 of rank 2, which takes it for the first and waits for 0x100000001 of rank 0. Both "
              "see 0, in different halves of the slot. Every rank has to make every call.",
          .ranks = 3,
          .cores = 3,
          .profile = kFaithful202607,
          .settings = detour::window(3),
          .slots = detour::declare,
          .run = [](runtime::World& world) -> Result<void> {
            start_from_zero(world);
            for (const Rank partner : {Rank{1}, Rank{2}}) {
              const detour::Call call{.members = {Rank{0}, partner}, .elements = 4};
              if (!call.has(world.rank())) continue;
              if (Result<void> done = detour::all_to_all(world, call); !done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
