// orphan wait: core-count drift
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit fewer_cores() {
  return {.name = "S9",
          .what = "one kernel runs on fewer cores, and the rounds of the idle ones stay behind",
          .expected = "orphan wait: core-count drift",
          .story =
              "Each core keeps its round in a slot of its own. All ranks launch the second kernel on core 0 alone, so "
              "core 1 does not count it. In the third kernel core 0 and core 1 of the same rank are in different "
              "rounds and look at different buffers, although all ranks behave alike.",
          .cores = 2,
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            for (const std::int32_t cores : {2, 1, 2}) {
              const Result<void> done = world.all().launch("step", cores, [](runtime::CoreContext& context) {
                runtime::ZeroBufferSync sync(context);
                sync.barrier_all();
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
