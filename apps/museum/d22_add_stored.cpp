// broken contract
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit add_stored() {
  return {.name = "D22",
          .what = "the slot counts arrivals, and a back end stores where it should add",
          .expected = "broken contract",
          .story =
              "Three ranks add 1 and the wait looks for 3. A back end without atomic adds stores: whoever comes last "
              "leaves a 1, and the wait never ends. The family is declared for add, so strict mode refuses the set at "
              "the call.",
          .ranks = 3,
          .slots =
              [](shmem::SlotPlan& slots, const shmem::BlockMap& map) {
                slots.declare({.name = "arrivals",
                               .base = map.user_data.at,
                               .writers = shmem::Writers::any_rank,
                               .op = shmem::SignalOp::add});
              },
          .run = kernel("signal_wait", [](runtime::CoreContext& context) {
            const Slot arrivals = context.slots().family("arrivals").at(0, Rank{0});
            context.signal(Rank{0}, arrivals, shmem::SignalOp::set, 1);
            if (context.rank() == Rank{0}) context.wait(arrivals, Compare::equal, 3).ordering_only();
          })};
}

}  // namespace shmoe::apps
