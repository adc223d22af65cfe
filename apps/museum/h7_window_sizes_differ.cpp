// mismatch
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit window_sizes_differ() {
  return {
      .name = "H7",
      .what = "SHMOE_BUFFSIZE is 204 on one rank and 100 on the other",
      .expected = "mismatch",
      .story =
          "The places in the window follow from its size, which each rank takes from its own environment: as "
          "published rank 0 polls at 133693472, rank 1 at 39321600, and the data went elsewhere. Here the ranks "
          "compare their settings when they meet. The job does not start, and says what each of them has.",
      .settings = [](Rank rank,
                     runtime::Config& config) { config.ipc_data = Bytes{(rank == Rank{0} ? 204 : 100) * shmem::kMiB}; },
      .run = [](runtime::World&) { return Result<void>{}; }};
}

}  // namespace shmoe::apps
