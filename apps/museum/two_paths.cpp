// overrun: two paths on one region
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit two_paths() {
  return {.name = "PATHS",
          .what = "the low-latency path clears its flags where the normal path counts its rounds",
          .expected = "overrun: two paths on one region",
          .story =
              "Two paths take the same bytes for theirs. When the second one has cleared its flags, core 0 is in round "
              "0 again and core 1 in round 2: they use different buffers, and words of rounds that are long over. S9 "
              "drifts in the same way, but there a round went on too little, and here it went back. Each path needs "
              "a region of its own.",
          .cores = 2,
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            for (const char* op : {"notify", "dispatch"}) {
              if (Result<void> done = barriers(world, op, 1); !done) return done;
            }
            const Result<void> done = world.all().launch("combine_ll", [](runtime::CoreContext& context) {
              constexpr std::uint64_t kClear = 0;
              if (context.core() != Core{0}) return;
              context.put(context.rank(), context.map().magic_of(Core{0}), std::span{&kClear, 1});
            });
            if (!done) return done;
            return barriers(world, "notify", 1);
          }};
}

}  // namespace shmoe::apps
