// clean
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit low_latency_by_hand() {
  return {
      .name = "LL",
      .what = "the low-latency kernel of F10 to F18 with all of its parts",
      .expected = "clean",
      .story =
          "Counts, status, tables, rows, flags and cleaning up, as published, with one SyncAll more before the flags, "
          "whose lack is S3. What fails in F10 to F18 is due to the part that is missing there.",
      .cores = 2,
      .profile = kFaithful202607,
      .slots = ops::declare_low_latency,
      .checked = hand::low_latency_dispatches(hand::Without::nothing)};
}

}  // namespace shmoe::apps
