// overrun: host clear missing
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit counter_not_cleared() {
  return {.name = "CLEAR",
          .what = "a slot counts the signals of a launch, and nobody clears it before the next one",
          .expected = "overrun: host clear missing",
          .story =
              "Rank 1 adds 1, and rank 0 waits for exactly 1. The first launch is right. In the second one the count "
              "goes on to 2, and rank 0 looks for 1. The host clears what counts before each launch, and all ranks "
              "meet before the first signal; or the wait is for a number that grows with the launch. Where the old "
              "word ends the wait too early, nothing hangs: D23.",
          .slots =
              [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
                plan.declare({.name = "count",
                              .base = map.user_data.at,
                              .sources = static_cast<std::uint32_t>(map.shape.ranks),
                              .op = shmem::SignalOp::add});
              },
          .run = [](runtime::World& world) -> Result<void> {
            for (const char* op : {"first", "second"}) {
              const Result<void> done = world.all().launch(op, [](runtime::CoreContext& context) {
                runtime::ZeroBufferSync sync(context);
                const Slot count = context.slots().family("count").at(0, Rank{1});
                if (context.rank() == Rank{1}) context.signal(Rank{0}, count, shmem::SignalOp::add, 1);
                sync.barrier_all();  // it has come when rank 0 looks
                if (context.rank() == Rank{0}) context.wait(count, Compare::equal, 1).ordering_only();
                sync.barrier_all();  // rank 1 adds again when rank 0 has looked
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
