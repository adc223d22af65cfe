// peer lost
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_time_limit() {
  return {.name = "S19",
          .what = "a rank is killed while it waits for a flag",
          .expected = "peer lost",
          .story =
              "The others would wait for its flags for ever: the published kernels know no limit. Here they leave with "
              "an error that names the rank, its process, and what they waited for.",
          .ranks = 3,
          .faults = "rank 1 in exchange wait 1 flag: kill",
          .run = kernel("exchange", [](runtime::CoreContext& context) {
            runtime::ZeroBufferSync sync(context);
            for (const std::uint32_t phase : {1U, 2U}) {
              sync.set_flag_batch(Rank{0}, Rank{context.ranks()}, 0, phase);
              sync.wait_flag_batch(Rank{0}, Rank{context.ranks()}, 0, phase);
            }
          })};
}

}  // namespace shmoe::apps
