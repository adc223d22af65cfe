// overwrite before read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit no_sync_after_layout() {
  return {.name = "F14",
          .what = "no SyncAll between counting and the layout status",
          .expected = "overwrite before read",
          .story =
              "Core 0 tells rank 0 that the counts are there when its own are, and core 1 writes its own afterwards. "
              "Ranks collect different tables, and rows of two ranks get one place.",
          .cores = 2,
          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::sync_after_layout)};
}

}  // namespace shmoe::apps
