// orphan wait: notify range unlike wait range
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit option_differs() {
  return {.name = "H12",
          .what = "compute_gate is off at the attention ranks and on at the expert ranks",
          .expected = "orphan wait: notify range unlike wait range",
          .story =
              "The experts expect ids and scales besides the rows, and wait for their flags to be 0x100000000. The "
              "attention ranks were called without the option and raise the flag of the rows alone: the others are 0. "
              "In the profile safe such options belong to what all ranks compare at the entry.",
          .ranks = 4,
          .cores = 4,
          .profile = kFaithful202607,
          .slots = afd::declare,
          .run = [](runtime::World& world) -> Result<void> {
            start_from_zero(world);
            Result<afd::Side> side = afd::Side::on(world.all(), {.experts = 2, .gate = world.rank() < Rank{2}});
            return side ? side->a2e() : Result<void>{side.error()};
          }};
}

}  // namespace shmoe::apps
