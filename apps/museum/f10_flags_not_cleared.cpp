// unordered read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit flags_not_cleared() {
  return {.name = "F10",
          .what = "nobody clears the low-latency flags",
          .expected = "unordered read",
          .story =
              "The sum of the first launch still lies there. The wait of the second one ends at once, and the experts "
              "read rows of the launch before, or half of the new ones. Nothing hangs. Who waits clears, or the words "
              "grow with the launch.",

          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::clearing)};
}

}  // namespace shmoe::apps
