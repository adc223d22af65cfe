// broken contract
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit rank_beyond() {
  return {.name = "H23",
          .what = "a group names a rank that does not exist",
          .expected = "broken contract",
          .story =
              "Rank 2 of a job of two. As published the table of addresses holds null there, or another peer. Here the "
              "call names the rank, and how many there are.",
          .run = kernel("all_to_all", [](runtime::CoreContext& context) {
            context.signal(Rank{2}, context.slots().flag().at(0, context.rank()), shmem::SignalOp::set, 1);
          })};
}

}  // namespace shmoe::apps
