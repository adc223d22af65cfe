// orphan wait: notify range unlike wait range
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit option_differs() {
  return {.name = "H12",
          .what = "compute_gate is off at the attention rank and on at the expert rank",
          .expected = "orphan wait: notify range unlike wait range",
          .story =
              "The expert expects ids and scales besides the rows, and waits for their flags to be 0x100000000. The "
              "attention rank was called without the option and raises the flag of the rows alone: the others are 0. "
              "In the profile safe such options belong to what all ranks compare at the entry.",
          .cores = 4,
          .profile = kFaithful202607,
          .slots = afd::declare,
          .run = [](runtime::World& world) -> Result<void> {
            Result<afd::Side> side = afd::Side::on(world.all(), {.gate = world.rank() == Rank{0}});
            return side ? side->a2e() : Result<void>{side.error()};
          }};
}

}  // namespace shmoe::apps
