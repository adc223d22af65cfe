// mismatch
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit expert_twice() {
  return {
      .name = "S13",
      .what = "an expert occurs twice in token 0, and both copies get one row",
      .expected = "mismatch",
      .story =
          "The published kernel does not look for earlier pairs in token 0 and numbers all of them 0. Both copies go "
          "to the first row, and the second row is never written: the expert works on what lay there. The same token "
          "in another place, or on the normal path, gets two rows.",
      .profile = kFaithful202607,
      .slots = ops::declare_low_latency,
      .run = [](runtime::World& world) -> Result<void> {
        ll::Layer layer(world.all(), {.ids = {1, 1}, .topk = 2});
        if (Result<void> sent = ll::run(layer, {&ll::Layer::dispatch}); !sent) return sent;
        return world.all().launch("experts", [&](runtime::CoreContext& context) {
          for (std::int64_t row = 0; row < layer.received(); ++row) {
            if (layer.read_row(context, row).front() != 1) wrong(context, "a row that nobody has sent");
          }
        });
      }};
}

}  // namespace shmoe::apps
