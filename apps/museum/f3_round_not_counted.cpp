// deadlock cycle: magic drift
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit round_not_counted() {
  return {.name = "F3",
          .what = "one rank does not count the round of one kernel",
          .expected = "deadlock cycle: magic drift",
          .story =
              "Rank 1 takes the round of the kernel before once more. Its next barrier is satisfied by old words, "
              "and from then on it is a barrier ahead; in the last kernel the others wait for a word that it has "
              "written under another number.",
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            runtime::Communicator& comm = world.all();
            for (int step = 0; step < 3; ++step) {
              if (step == 1 && world.rank() == Rank{1}) --comm.local<std::uint64_t>(comm.map().magic_of(Core{0}), 1)[0];
              if (Result<void> done = barriers(world, "step", 2); !done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
