// unordered read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_barrier.hpp"

namespace shmoe::apps {

Exhibit no_first_sync_all() {
  return {.name = "F6",
          .what = "a barrier without its first SyncAll",
          .expected = "unordered read",
          .story =
              "Core 0 tells the other ranks that this one is there, and its core 1 is still sending. The flag precedes "
              "the rows of all cores but the one that sets it.",
          .cores = 2,
          .profile = kFaithful202607,
          .checked =
              checked_kernel("dispatch", [](runtime::CoreContext& context) { hand::exchange(context, false, true); })};
}

}  // namespace shmoe::apps
