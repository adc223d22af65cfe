// overrun: buffer reused too early
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit only_one_direction() {
  return {
      .name = "H11",
      .what = "three calls in one direction, and nothing comes back",
      .expected = "overrun: buffer reused too early",
      .story =
          "The attention rank sends and never waits for the expert. Its third call uses the buffer of the first, which "
          "the expert has not seen. An answer between two calls of equal parity is what makes two buffers enough.",
      .profile = kFaithful202607,
      .faults = "rank 1 in a2e launch 1 wait 1 flag: late",
      .run = [](runtime::World& world) -> Result<void> {
        for (int call = 0; call < 3; ++call) {
          const Result<void> done = world.all().launch("a2e", [](runtime::CoreContext& context) {
            runtime::ZeroBufferSync sync(context);
            if (context.rank() == Rank{0}) sync.set_flag(Rank{1}, 0, 1);
            if (context.rank() == Rank{1}) sync.wait_flag(Rank{0}, 0, 1).ordering_only();
          });
          if (!done) return done;
        }
        return {};
      }};
}

}  // namespace shmoe::apps
