// deadlock cycle: merged notifies
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit combine_after_combine() {
  return {
      .name = "S4",
      .what = "two low-latency combines in a row: a flag is set again before its reader has cleared it",
      .expected = "deadlock cycle: merged notifies",
      .story =
          "The flags are 1.0 and carry no round; who waits for their sum clears them. Rank 1 has set its flags of "
          "the first combine and looks late. Rank 0 is through with it and sets its flag of the second one over "
          "that of the first. Rank 1 clears both at once and waits in the second combine for a flag that it has "
          "erased. A dispatch between two combines keeps them apart; a word that grows needs none.",
      .profile = kFaithful202607,
      .strict = false,
      .faults = "rank 1 in combine_low_latency launch 1 wait 1 ll_combine_flag: late",
      .slots = ops::declare_low_latency,
      .run = [](runtime::World& world) {
        ll::Layer layer(world.all(), {.ids = {0, 1}});
        return ll::run(layer, {&ll::Layer::dispatch, &ll::Layer::experts, &ll::Layer::combine, &ll::Layer::combine});
      }};
}

}  // namespace shmoe::apps
