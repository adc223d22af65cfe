// SyncAll mismatch: SyncAll left out by a core
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit divergent_barrier() {
  return {.name = "D14",
          .what = "a barrier of all cores inside `if sub-block == 0`",
          .expected = "SyncAll mismatch: SyncAll left out by a core",
          .story =
              "A barrier begins and ends with a SyncAll of the cores of a rank. Only core 0 calls it; core 1 takes the "
              "other branch and leaves. A guard round a barrier is a deadlock.",
          .cores = 2,
          .run = kernel("allgather_gemm", [](runtime::CoreContext& context) {
            runtime::ZeroBufferSync sync(context);
            if (context.core() == Core{0}) sync.barrier_all();
          })};
}

}  // namespace shmoe::apps
