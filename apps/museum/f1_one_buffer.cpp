// overrun: buffer reused too early
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_barrier.hpp"

namespace shmoe::apps {

Exhibit one_buffer() {
  return {.name = "F1",
          .what = "no ping-pong: the barriers of all kernels use one buffer",
          .expected = "overrun: buffer reused too early",
          .story =
              "Rank 1 has signalled its first barrier and looks late. Rank 0 leaves it and signals the second one into "
              "the same "
              "slot. Two buffers by turns are what keeps a fast rank's next word away from a slow rank's wait.",
          .profile = kFaithful202607,
          .faults = "rank 1 in step launch 1 wait 1 flag: late",
          .run = [](runtime::World& world) -> Result<void> {
            for (std::uint64_t magic = 1; magic <= 3; ++magic) {
              const Result<void> done = world.all().launch("step", [magic](runtime::CoreContext& context) {
                hand::tell(context, 0, shmem::published_word(magic, 1));
                hand::hear(context, 0, shmem::published_word(magic, 1));
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
