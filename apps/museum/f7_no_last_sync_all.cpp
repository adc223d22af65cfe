// unordered read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_barrier.hpp"

namespace shmoe::apps {

Exhibit no_last_sync_all() {
  return {.name = "F7",
          .what = "a barrier without its last SyncAll",
          .expected = "unordered read",
          .story =
              "Core 0 has heard of the other ranks, and core 1 goes on without waiting for core 0. It reads rows of a "
              "rank that nobody has told it about.",
          .cores = 2,
          .profile = kFaithful202607,
          .checked =
              checked_kernel("dispatch", [](runtime::CoreContext& context) { hand::exchange(context, true, false); })};
}

}  // namespace shmoe::apps
