// deadlock cycle: operator order differs
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit batches_cross() {
  return {.name = "T77",
          .what = "two batches overlap, each on a communicator of its own, and one rank begins with the other batch",
          .expected = "deadlock cycle: operator order differs",
          .story =
              "Each batch has its own flags, so nothing is overwritten. But a rank runs one launch at a time: rank 0 "
              "waits in the notify of the first batch for rank 1, which waits in that of the second one for rank 0. "
              "Neither communicator is stuck by itself, the two together are. All ranks must begin the batches in one "
              "order, through all communicators.",
          .communicators = 3,
          .run = [](runtime::World& world) -> Result<void> {
            const std::vector<Rank> members{Rank{0}, Rank{1}};
            std::vector<runtime::Communicator*> batches;
            for (const int id : {1, 2}) {
              const auto made = world.communicator(runtime::CommunicatorId{id}, members);
              if (!made) return made.error();
              batches.push_back(*made);
            }
            if (Result<void> met = world.all().barrier(); !met) return met;
            if (world.rank() == Rank{1}) std::swap(batches[0], batches[1]);
            for (runtime::Communicator* batch : batches) {
              const Result<void> done = batch->launch("notify", [](runtime::CoreContext& context) {
                runtime::ZeroBufferSync sync(context);
                sync.barrier_all();
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
