// overrun
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_barrier.hpp"

namespace shmoe::apps {

Exhibit round_wraps() {
  return {.name = "H4",
          .what = "the round wraps from an odd number to an odd one, and both use one buffer",
          .expected = "overrun",
          .story =
              "The published count goes from 2^30 - 1 to 1. Both are odd, so for once two rounds in a row use the same "
              "buffer, and the second overtakes the first as in F1.",
          .profile = kFaithful202607,
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            for (const std::uint64_t magic : {(std::uint64_t{1} << 30) - 1, std::uint64_t{1}}) {
              const Result<void> done = comm.launch("step", [magic](runtime::CoreContext& context) {
                const std::uint64_t word = shmem::published_word(magic, 1);
                hand::tell(context, magic & 1, word);
                hand::hear(context, magic & 1, word);
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
