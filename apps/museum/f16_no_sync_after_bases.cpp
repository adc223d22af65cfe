// unordered read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit no_sync_after_bases() {
  return {.name = "F16",
          .what = "no SyncAll between the sums and the rows",
          .expected = "unordered read",
          .story =
              "A core sends rows to all ranks, and knows where they begin on those of its own share only. To the "
              "others it sends them to where they would begin a launch before, or to row 0.",
          .cores = 2,
          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::sync_after_bases)};
}

}  // namespace shmoe::apps
