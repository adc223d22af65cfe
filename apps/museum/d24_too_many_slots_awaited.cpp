// deadlock cycle: notify range unlike wait range
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit too_many_slots_awaited() {
  return {.name = "D24",
          .what = "the wait is for a slot of each peer, and all producers signal slot 0",
          .expected = "deadlock cycle: notify range unlike wait range",
          .story =
              "The wait takes a first slot and a count, R - 1. The producers use the first one only: slot 1 is never "
              "written, and for many ranks the range goes beyond the array.",
          .ranks = 3,
          .cores = 2,
          .run = kernel("signal_wait", [](runtime::CoreContext& context) {
            if (context.core() != Core{0}) return;
            runtime::ZeroBufferSync sync(context);
            sync.set_flag_batch(Rank{0}, Rank{context.ranks()}, 0, 1);
            ep::each_rank(context, [&](Rank source) {
              const auto count = static_cast<std::uint32_t>(context.ranks() - 1);
              if (source != context.rank()) sync.wait_flag_range(source, 0, count, 1);
            });
          })};
}

}  // namespace shmoe::apps
