// bad address
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit counts_not_cleaned_up() {
  return {.name = "F17",
          .what = "the counts of the last launch are not cleared",
          .expected = "bad address",
          .story =
              "The counts are added up, so the second launch places its rows behind those of the first one, beyond the "
              "buffer. Nothing hangs.",

          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = hand::low_latency_dispatches(hand::Without::clean_up)};
}

}  // namespace shmoe::apps
