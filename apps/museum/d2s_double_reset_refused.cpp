// broken contract
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit double_reset_refused() {
  return {.name = "D2S",
          .what = "the same in strict mode: the second reset is refused at the call",
          .expected = "broken contract",
          .story =
              "A credit is set and reset by turns, and strict mode looks at the word before it writes it. It names "
              "both cores, long before anybody waits for the lost signal.",
          .cores = 3,
          .slots = credit::declare,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            const Rank peer{1 - context.rank().value()};
            if (context.core() == Core{0}) credit::fill(context, peer, 0, 0);
            if (context.core() != Core{0}) credit::take(context, peer, 0, 0);
            context.sync_all();
            if (context.core() == Core{1}) credit::give_back(context, peer, 0, 0);
            context.sync_all();
            if (context.core() == Core{2}) credit::give_back(context, peer, 0, 0);
          })};
}

}  // namespace shmoe::apps
