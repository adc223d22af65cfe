// orphan wait: missing notify
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit flag_never_set() {
  return {.name = "H1",
          .what = "a sender core stores its shard and does not set the flag",
          .expected = "orphan wait: missing notify",
          .story =
              "Every rank sets a flag on every other. Rank 1's flag on rank 0 is lost, as if the line were left out. "
              "The ledger shows that rank 1 has signalled the others and not rank 0.",
          .ranks = 3,
          .faults = "rank 1 in exchange signal 1 flag: drop",
          .run = kernel("exchange", [](runtime::CoreContext& context) {
            runtime::ZeroBufferSync sync(context);
            sync.set_flag_batch(Rank{0}, Rank{context.ranks()}, 0, 1);
            sync.wait_flag_batch(Rank{0}, Rank{context.ranks()}, 0, 1);
          })};
}

}  // namespace shmoe::apps
