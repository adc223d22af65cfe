// unordered read
#include "apps/museum/ep.hpp"
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
          .checked = checked_kernel("dispatch", [](runtime::CoreContext& context) {
            WordTable rows(context, ep::kRows);
            rows.write(1);
            context.quiet();
            const shmem::Witness this_rank = context.sync_all();
            if (context.core() == Core{0}) {
              hand::tell(context, 1, 1);
              hand::hear(context, 1, 1);
            }
            ep::each_rank(context, [&](Rank source) { rows.expect_all(source, 1, this_rank); });
          })};
}

}  // namespace shmoe::apps
