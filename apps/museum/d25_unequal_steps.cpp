// orphan wait: missing notify
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit unequal_steps() {
  return {.name = "D25",
          .what = "one rank has fewer rows and leaves the loop of steps earlier",
          .expected = "orphan wait: missing notify",
          .story =
              "The number of steps is computed from each rank's own rows. Rank 2 is through after three steps and "
              "ends; the others wait for its fourth. The number of steps must be agreed, or the same by shape.",
          .ranks = 3,
          .run = kernel("gemm_reduce_scatter", [](runtime::CoreContext& context) {
            runtime::ZeroBufferSync sync(context);
            const std::uint32_t steps = context.rank() == Rank{2} ? 3 : 4;
            for (std::uint32_t step = 1; step <= steps; ++step) {
              sync.set_flag_batch(Rank{0}, Rank{context.ranks()}, 0, step);
              sync.wait_flag_batch(Rank{0}, Rank{context.ranks()}, 0, step);
            }
          })};
}

}  // namespace shmoe::apps
