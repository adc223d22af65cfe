// SyncAll mismatch: SyncAll left out by a core
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit idle_core_leaves() {
  return {.name = "F24",
          .what = "a core without work leaves layout one SyncAll early",
          .expected = "SyncAll mismatch: SyncAll left out by a core",
          .story =
              "Each core computes for itself how many rounds there are, and the one without tokens finds fewer. The "
              "others wait in a SyncAll that it never calls. The number of SyncAlls of a kernel must not depend on "
              "the work of a core.",
          .cores = 3,
          .run = kernel("layout", [](runtime::CoreContext& context) {
            const bool idle = context.core().value() == context.cores() - 1;
            for (int round = 0; round < (idle ? 1 : 2); ++round) context.sync_all();
          })};
}

}  // namespace shmoe::apps
