// overwrite before read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit clean_up_too_early() {
  return {.name = "F18",
          .what = "the counts are cleared before the flags of all ranks have come",
          .expected = "overwrite before read",
          .story =
              "The flag of a rank says that it has read the counts. Cleared before, they may be 0 when a slow rank "
              "collects them: it takes this rank for one without tokens, and its rows lie over those of another one.",

          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::flags_before_clean_up)};
}

}  // namespace shmoe::apps
