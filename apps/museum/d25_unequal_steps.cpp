// orphan wait: missing notify
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit unequal_steps() {
  return {.name = "D25",
          .what = "one rank has fewer rows and leaves the loop of steps earlier",
          .expected = "orphan wait: missing notify",
          .story =
              "The number of steps is computed from each rank's own rows. Rank 2 is through after four barriers and "
              "ends; the others wait for its fifth. The number of steps must be agreed, or the same by shape.",
          .ranks = 3,
          .profile = kFaithful202608,
          .run = kernel("gemm_reduce_scatter", [](runtime::CoreContext& context) {
            runtime::ZeroBufferSync sync(context);
            const int steps = context.rank() == Rank{2} ? 4 : 5;
            for (int step = 0; step < steps; ++step) sync.barrier_all();
          })};
}

}  // namespace shmoe::apps
