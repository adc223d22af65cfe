// deadlock cycle: cause unknown
#include "apps/museum/exhibits.hpp"
#include "runtime/legacy_sync.hpp"

namespace shmoe::apps {

Exhibit group_of_one() {
  return {.name = "H5",
          .what = "a reduce-scatter of a group of one: nobody is there to reduce with, and the last step is awaited",
          .expected = "deadlock cycle: cause unknown",
          .story =
              "Core 0 starts the sum with the own chunk. Core 1 adds what C - 1 others have sent, tells its progress "
              "behind each, and then waits for the progress of step C - 1. With C = 1 there is no step, so nobody ever "
              "tells it. Here a group of one has nothing to wait for.",
          .ranks = 1,
          .cores = 2,
          .profile = kFaithful202607,
          .slots =
              [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
                runtime::LegacySync::declare(plan, "detour", Offset{0}, map.shape.ranks, map.shape.cores);
              },
          .run =
              [](runtime::World& world) {
                return world.all().launch("reduce_scatter", [](runtime::CoreContext& context) {
                  constexpr std::int32_t kMembers = 1;
                  runtime::LegacySync sync(context, runtime::LegacySync::of(context.slots(), "detour"), Round{1});
                  if (context.core() == Core{0}) return sync.set_sync(Rank{0}, 1);
                  sync.wait_sync(Rank{0}, Rank{0}, 1).ordering_only();
                  for (std::uint32_t step = 1; step < kMembers; ++step) sync.set_outer(step);
                  sync.wait_outer(Rank{0}, context.core(), kMembers - 1).ordering_only();
                });
              }};
}

}  // namespace shmoe::apps
