// deadlock cycle: magic drift
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit round_not_counted() {
  return {.name = "F3",
          .what = "one rank counts a round that the others do not",
          .expected = "deadlock cycle: magic drift",
          .story =
              "Rank 1 takes a round outside of any kernel. In the next kernel the parities differ: it writes and reads "
              "one buffer, the others the other one, and both see words of two rounds ago.",
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            runtime::Communicator& comm = world.all();
            for (int step = 0; step < 3; ++step) {
              if (step == 1 && world.rank() == Rank{1}) ++comm.local<std::uint64_t>(comm.map().magic_of(Core{0}), 1)[0];
              if (Result<void> done = barriers(world, "step", 1); !done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
