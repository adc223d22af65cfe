// overwrite before read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit rounds_as_floats() {
  return {.name = "S18",
          .what = "the layout status is a float, and 2^24 + 1 is none",
          .expected = "overwrite before read",
          .story =
              "Launch 16777217 tells the same float as launch 16777216. Its wait for the layout status finds the word "
              "of the launch before and ends at once: rank 0 collects counts that rank 1 has yet to write. Here a "
              "round is a whole number of 56 bits.",
          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            const auto region = ops::LowLatencyRegion::find(comm.slots(), comm.map());
            if (!region) return region.error();
            comm.local<std::uint64_t>(region->rounds_of(Core{0}), 1)[0] = (1U << 24) - 1;
            ll::Layer layer(comm, {.ids = {0, 1}});
            return ll::run(layer, {&ll::Layer::dispatch, &ll::Layer::experts, &ll::Layer::dispatch});
          }};
}

}  // namespace shmoe::apps
