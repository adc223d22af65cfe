// unordered read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_barrier.hpp"

namespace shmoe::apps {

Exhibit no_quiet() {
  return {.name = "F8",
          .what = "a barrier that does not complete the rows before its flag",
          .expected = "unordered read",
          .story =
              "The flag is a store like any other, and overtakes the rows that were sent before it. x86 shows stores "
              "in order and hides this; an accelerator and a network do not.",
          .profile = kFaithful202607,
          .checked = checked_kernel("dispatch", [](runtime::CoreContext& context) {
            WordTable rows(context, ep::kRows);
            rows.write(1);
            hand::tell(context, 1, 1);
            const shmem::Witness everyone = hand::hear(context, 1, 1);
            ep::each_rank(context, [&](Rank source) { rows.expect_all(source, 1, everyone); });
          })};
}

}  // namespace shmoe::apps
