// mismatch
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit row_of_zeros() {
  return {
      .name = "S14",
      .what = "a row of zeros is sent as int8, and its scale is 0",
      .expected = "mismatch",
      .story =
          "The published low-latency kernel divides 127 by the largest element. Of zeros that is infinite, the scale "
          "is 0, and the bytes are whatever becomes of infinity times 0; here they are 0. The normal path adds an "
          "epsilon and stores a scale above 0, by which an expert may divide.",
      .profile = kFaithful202607,
      .slots = ops::declare_low_latency,
      .run = [](runtime::World& world) -> Result<void> {
        ll::Layer layer(world.all(), {.ids = {0, 1}, .x = 0, .quant = ops::Quant::int8});
        if (Result<void> sent = ll::run(layer, {&ll::Layer::dispatch}); !sent) return sent;
        return world.all().launch("experts", [&](runtime::CoreContext& context) {
          for (const float scale : layer.scales()) {
            if (!(scale > 0)) wrong(context, "the scale of a row of zeros");
          }
        });
      }};
}

}  // namespace shmoe::apps
