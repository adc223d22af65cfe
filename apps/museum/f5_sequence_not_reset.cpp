// overrun: magic drift
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_barrier.hpp"

namespace shmoe::apps {

Exhibit sequence_not_reset() {
  return {.name = "F5",
          .what = "one rank goes on counting barriers where a new kernel begins with 1",
          .expected = "overrun: magic drift",
          .story =
              "The word of a barrier is (magic, number of the barrier in the kernel). Rank 1 does not begin anew, so "
              "its first barrier of the second kernel is (3, 2) where rank 0 looks for (3, 1). Both have signalled "
              "each other equally often, which tells it from an overtaken barrier.",
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            for (std::uint64_t magic = 2; magic <= 3; ++magic) {
              const bool faulty = world.rank() == Rank{1} && magic == 3;
              const std::uint64_t word = shmem::published_word(magic, faulty ? 2 : 1);
              const Result<void> done = world.all().launch("step", [=](runtime::CoreContext& context) {
                hand::tell(context, magic & 1, word);
                hand::hear(context, magic & 1, word);
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
