// deadlock cycle: shared flag window
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_low_latency.hpp"

namespace shmoe::apps {

Exhibit one_window() {
  return {
      .name = "F11",
      .what = "dispatch and combine share one window of flags",
      .expected = "deadlock cycle: shared flag window",
      .story =
          "Rank 1 has set its flags of dispatch and looks late. Rank 0 is through with dispatch and sets its flag of "
          "combine, into the same word. Rank 1 clears it with those of dispatch and waits for it in combine. Two "
          "windows are what keeps the flags of two neighbouring kernels apart.",
      .profile = kFaithful202607,
      .strict = false,
      .faults = "rank 1 in dispatch wait 1 ll_dispatch_flag: late",
      .slots = ops::declare_low_latency,
      .run = [](runtime::World& world) -> Result<void> {
        const Offset rows{0xB000};
        const auto low_latency = [&](runtime::CoreContext& context) {
          return hand::LowLatency(context, rows, hand::Without::window_of_its_own);
        };
        runtime::Communicator& comm = world.all();
        Result<void> done =
            comm.launch("dispatch", [&](runtime::CoreContext& context) { low_latency(context).dispatch(1); });
        if (!done) return done;
        return comm.launch("combine", [&](runtime::CoreContext& context) { low_latency(context).combine(); });
      }};
}

}  // namespace shmoe::apps
