// overwrite before read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit no_sync_after_bases() {
  return {
      .name = "F16",
      .what = "no SyncAll between the sums and the rows",
      .expected = "overwrite before read",
      .story =
          "A core sends rows to all ranks, and has computed where they begin on those of its own share only. On the "
          "others it reads what the launch before has left, or 0, and another core writes the right place afterwards.",
      .cores = 2,
      .profile = kFaithful202607,
      .slots = ops::declare_low_latency,
      .checked = hand::low_latency_dispatches(hand::Without::sync_after_bases)};
}

}  // namespace shmoe::apps
