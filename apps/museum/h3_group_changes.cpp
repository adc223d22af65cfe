// overrun: buffer reused too early
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit group_changes() {
  return {.name = "H3",
          .what = "a call on ranks 0 and 1, one on 0 and 2, and again one on 0 and 1",
          .expected = "overrun: buffer reused too early",
          .story =
              "Rank 1 has nothing to do in the second call, so nothing keeps rank 0 back: in the third one it writes "
              "its flag 0x300000001 over the 0x100000001 of the first, which rank 1 has not seen. Rank 1 looks for "
              "the first, and rank 0 for the third, which rank 1 never comes to. Two halves are enough only between "
              "ranks that wait for each other in every call.",
          .ranks = 3,
          .cores = 3,
          .profile = kFaithful202607,
          .faults = "rank 1 in all_to_all_detour launch 1 wait 1: late",
          .settings = detour::window(3),
          .slots = detour::declare,
          .run = [](runtime::World& world) -> Result<void> {
            start_from_zero(world);
            for (const Rank partner : {Rank{1}, Rank{2}, Rank{1}}) {
              const detour::Call call{.members = {Rank{0}, partner}, .elements = 4};
              if (Result<void> done = detour::all_to_all(world, call); !done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
