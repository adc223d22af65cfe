// mismatch
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit rest_left_out() {
  return {.name = "H24",
          .what = "each rank receives L / C elements of each, and C does not divide L",
          .expected = "mismatch",
          .story =
              "Of 23 elements two ranks exchange 11 each, and the last element of the output stays what it was. In the "
              "profile safe the first chunks are one longer, and cover everything.",
          .cores = 2,
          .profile = kFaithful202607,
          .settings = detour::window(2),
          .slots = detour::declare,
          .run = [](runtime::World& world) {
            return detour::all_to_all(world, {.members = {Rank{0}, Rank{1}}, .elements = 23});
          }};
}

}  // namespace shmoe::apps
