// overrun: shared flag window
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit window_shared() {
  return {
      .name = "SHARE",
      .what = "dispatch and combine signal in one window of slots",
      .expected = "overrun: shared flag window",
      .story =
          "Rank 0 signals 1 in dispatch, and goes on to combine, where it signals 2: in the same slot. Rank 1 is "
          "slow, and looks for the 1 of dispatch when the 2 of combine lies there. Each operator alone is right. "
          "Give each its own slots, or let all ranks meet in between.",
      .faults = "rank 1 in dispatch wait 1 window: late",
      .slots =
          [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
            plan.declare(
                {.name = "window", .base = map.user_data.at, .sources = static_cast<std::uint32_t>(map.shape.ranks)});
          },
      .run = [](runtime::World& world) -> Result<void> {
        std::uint64_t word = 0;
        for (const char* op : {"dispatch", "combine"}) {
          ++word;
          const Result<void> done = world.all().launch(op, [word](runtime::CoreContext& context) {
            const Slot from_0 = context.slots().family("window").at(0, Rank{0});
            if (context.rank() == Rank{0}) return context.signal(Rank{1}, from_0, shmem::SignalOp::set, word);
            context.wait(from_0, Compare::equal, word).ordering_only();
          });
          if (!done) return done;
        }
        return {};
      }};
}

}  // namespace shmoe::apps
