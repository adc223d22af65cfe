// orphan wait: notify range unlike wait range
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit option_differs() {
  return {.name = "H12",
          .what = "an option is on at one end and off at the other",
          .expected = "orphan wait: notify range unlike wait range",
          .story =
              "The expert expects the gate values of a token besides its row, and waits for their flags. The attention "
              "rank was started without the option and sends rows only. In the profile safe such options belong into "
              "the call that all ranks compare.",
          .cores = 3,
          .run = kernel("a2e", [](runtime::CoreContext& context) {
            runtime::ZeroBufferSync sync(context);
            if (context.core() != Core{0}) return;
            if (context.rank() == Rank{0}) sync.set_flag(Rank{1}, 0, 1);
            if (context.rank() == Rank{1}) sync.wait_flag_range(Rank{0}, 0, 3, 1);
          })};
}

}  // namespace shmoe::apps
