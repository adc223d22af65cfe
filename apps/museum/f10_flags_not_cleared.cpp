// overwrite before read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit flags_not_cleared() {
  return {.name = "F10",
          .what = "nobody clears the low-latency flags",
          .expected = "overwrite before read",
          .story =
              "The sum of the first launch still lies there, so the wait of the second one ends at once. A rank clears "
              "its counts while a slow one still collects them, and its experts read rows of the launch before. "
              "Nothing hangs. Who waits clears, or the words grow with the launch.",

          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::clearing)};
}

}  // namespace shmoe::apps
