// unordered read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_barrier_in_notify() {
  return {.name = "F22",
          .what = "notify without its barrier",
          .expected = "unordered read",
          .story =
              "A rank collects the counts of another one that has not finished its layout. The sums are not tokens "
              "times top-k, and every offset behind them is wrong.",
          .checked = ep::launches({ep::kLayout, {"notify", ep::collect}})};
}

}  // namespace shmoe::apps
