// invalid argument
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit rank_beyond() {
  return {.name = "H23",
          .what = "a group names a rank that does not exist",
          .expected = "invalid argument",
          .story =
              "Rank 2 of a job of two. As published the table of addresses holds null there, or another peer. Here the "
              "call names the rank, and how many there are.",
          .settings = [](Rank, runtime::Config& config) { config.ipc_data = Bytes{shmem::kMiB}; },
          .run =
              [](runtime::World& world) {
                return detour::all_to_all(world, {.members = {Rank{0}, Rank{2}}, .elements = 4});
              }};
}

}  // namespace shmoe::apps
