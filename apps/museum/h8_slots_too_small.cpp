// invalid argument
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit slots_too_small() {
  return {.name = "H8",
          .what = "eight ranks cut the default window into slots that do not hold their own flags",
          .expected = "invalid argument",
          .story =
              "204 MiB in 64 slots of two halves are 1.6 MiB each, and the data begin behind 2 MiB of flags: those of "
              "the last slot lie outside the window, where the published kernel stores them. Here the call is refused, "
              "with the sizes and what to raise.",
          .ranks = 8,
          .profile = kFaithful202607,
          .settings = [](Rank, runtime::Config& config) { config.ipc_data = Bytes{204 * shmem::kMiB}; },
          .slots = detour::declare,
          .run =
              [](runtime::World& world) {
                return detour::reduce_scatter(world, {.members = {Rank{0}, Rank{7}}, .elements = 8});
              }};
}

}  // namespace shmoe::apps
