// overrun: magic drift
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit round_not_counted() {
  return {.name = "F3",
          .what = "one rank counts two rounds that the others do not",
          .expected = "overrun: magic drift",
          .story =
              "Rank 1 takes two rounds outside of any kernel. In the next kernel it writes and looks for words of "
              "round 4 where the others are in round 2: the same buffer, and for ever another word. The ledgers show "
              "that each has signalled the other equally often.",
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            runtime::Communicator& comm = world.all();
            for (int step = 0; step < 3; ++step) {
              if (step == 1 && world.rank() == Rank{1})
                comm.local<std::uint64_t>(comm.map().magic_of(Core{0}), 1)[0] += 2;
              if (Result<void> done = barriers(world, "step", 1); !done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
