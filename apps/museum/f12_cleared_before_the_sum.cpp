// deadlock cycle: flag cleared too early
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit cleared_before_the_sum() {
  return {
      .name = "F12",
      .what = "the flags are cleared before their sum is complete",
      .expected = "deadlock cycle: flag cleared too early",
      .story =
          "A rank signals itself like any other, and then clears what has come so far. Its own flag is among that, so "
          "the sum is one short for ever. Flags are cleared when all of them have been seen, and not before.",
      .profile = kFaithful202607,
      .strict = false,
      .slots = ops::declare_low_latency,
      .run = kernel("dispatch", [](runtime::CoreContext& context) {
        hand::LowLatency(context, Offset{0xB000}, hand::Without::sum_before_clearing).dispatch(1);
      })};
}

}  // namespace shmoe::apps
