// orphan wait: missing notify
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit flag_never_set() {
  return {.name = "H1",
          .what = "a sender core stores its shard and does not set the flag",
          .expected = "orphan wait: missing notify",
          .story =
              "Ranks 0 and 1 exchange, and rank 2 lends its memory for the second shard of each pair. Core 2 of rank 0 "
              "stores its shard there and sets no flag, as if the line were left out: core 2 of rank 1 waits for "
              "0x100000001 and sees 0. The ledger shows that rank 0 has signalled the first shard and not the second.",
          .ranks = 3,
          .cores = 3,
          .profile = kFaithful202607,
          .faults = "rank 0 core 2 in all_to_all_detour signal 1: drop",
          .settings = detour::window(3),
          .slots = detour::declare,
          .run = [](runtime::World& world) {
            start_from_zero(world);
            return detour::all_to_all(world, {.members = {Rank{0}, Rank{1}}, .elements = 4});
          }};
}

}  // namespace shmoe::apps
