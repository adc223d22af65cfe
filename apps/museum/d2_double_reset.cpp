// deadlock cycle: double reset
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit double_reset() {
  return {.name = "D2",
          .what = "two cores consume a slot, and each of them gives it back",
          .expected = "deadlock cycle: double reset",
          .story =
              "Both cores have seen the first fill, and both reset it: the second reset changes nothing. After the "
              "next fill core 2 is the faster one. Core 1 waits for a signal that was there, and core 2 has erased it. "
              "One core alone gives a slot back. In strict mode this is refused at the call: D2S.",
          .cores = 3,
          .strict = false,
          .slots = credit::declare,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            const auto act = [&](Core core, const auto& step) {
              if (context.core() == core) step();
              context.sync_all();
            };
            const Rank peer{1 - context.rank().value()};
            const auto fill = [&] { credit::fill(context, peer, 0, 0); };
            const auto take = [&] { credit::take(context, peer, 0, 0); };
            const auto give_back = [&] { credit::give_back(context, peer, 0, 0); };
            act(Core{0}, fill);
            act(Core{1}, take);
            act(Core{2}, take);
            act(Core{1}, give_back);
            act(Core{2}, give_back);
            act(Core{0}, fill);
            act(Core{2}, take);
            act(Core{2}, give_back);
            act(Core{1}, take);
          })};
}

}  // namespace shmoe::apps
