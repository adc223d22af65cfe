// invalid argument
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit flags_unaligned() {
  return {.name = "H10",
          .what = "three ranks cut the default window into halves of an odd number of bytes",
          .expected = "invalid argument",
          .story =
              "204 MiB divided by 18 are 11883861 bytes, so the flags of odd calls lie at odd addresses. A word that "
              "crosses a cache line is not written at once, and a peer may see half of it. Here the call is refused.",
          .ranks = 3,
          .profile = kFaithful202607,
          .settings = [](Rank, runtime::Config& config) { config.ipc_data = Bytes{204 * shmem::kMiB}; },
          .slots = detour::declare,
          .run =
              [](runtime::World& world) {
                return detour::all_to_all(world, {.members = {Rank{0}, Rank{1}}, .elements = 4});
              }};
}

}  // namespace shmoe::apps
