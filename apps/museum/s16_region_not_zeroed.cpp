// overwrite before read
#include "apps/museum/exhibits.hpp"
#include "apps/museum/low_latency.hpp"

namespace shmoe::apps {

Exhibit region_not_zeroed() {
  return {.name = "S16",
          .what = "the flags are not zero before the first kernel",
          .expected = "overwrite before read",
          .story =
              "A flag of 1.0 is left over from whoever had the memory before, and counts in the sum like a new one. "
              "Rank 1 ends its wait early and clears its counts, which rank 0 has not read; nor are the rows of rank 0 "
              "there. A segment is created zeroed here, so this exhibit writes the word itself.",
          .profile = kFaithful202607,
          .slots = ops::declare_low_latency,
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            const Slot flag = comm.slots().family("ll_dispatch_flag").at(0, Rank{0});
            if (comm.rank() == Rank{1})
              comm.local<std::uint64_t>(comm.slots().offset_of(flag), 1)[0] = std::bit_cast<std::uint32_t>(1.0F);
            ll::Layer layer(comm, {.ids = {0, 1}});
            return ll::run(layer, {&ll::Layer::dispatch, &ll::Layer::experts});
          }};
}

}  // namespace shmoe::apps
