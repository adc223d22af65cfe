// unordered read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit rows_of_other_cores() {
  return {
      .name = "S3",
      .what = "the low-latency flag of a core tells of its own rows, and others send rows as well",
      .expected = "unordered read",
      .story =
          "Core 0 sends the row of token 0 to rank 1, and core 1 sets the flag of rank 1, when its own rows are "
          "out. Nothing stands between the two, so rank 1 leaves dispatch with a row that has not come. One SyncAll "
          "before the flags cures it.",
      .cores = 2,
      .profile = kFaithful202607,
      .slots = ops::declare_low_latency,
      .checked = ll::checked({.ids = {1, 0}}, {&ll::Layer::dispatch, &ll::Layer::experts})};
}

}  // namespace shmoe::apps
