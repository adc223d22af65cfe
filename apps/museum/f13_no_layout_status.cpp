// overwrite before read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit no_layout_status() {
  return {.name = "F13",
          .what = "dispatch does not wait for the layout status",
          .expected = "overwrite before read",
          .story =
              "Rank 0 collects the counts of rank 1, which has yet to count. The status is also the only barrier at "
              "the entry: without it a rank writes rows over those that the experts of a slow rank still read, and "
              "sets a flag that has not been cleared.",

          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::layout_status)};
}

}  // namespace shmoe::apps
