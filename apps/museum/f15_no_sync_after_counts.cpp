// unordered write
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit no_sync_after_counts() {
  return {.name = "F15",
          .what = "no SyncAll between collecting the counts and their sums",
          .expected = "unordered write",
          .story =
              "Each core collects the counts of its share of the ranks, and needs those of all for its sums. Without "
              "the SyncAll it adds up lines that another core has not filled, and rows of two ranks go to one place.",
          .cores = 2,
          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::sync_after_counts)};
}

}  // namespace shmoe::apps
