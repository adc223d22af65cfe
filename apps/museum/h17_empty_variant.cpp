// orphan wait: missing notify
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit empty_variant() {
  return {.name = "H17",
          .what = "one side has no kernel for its element type and returns at once",
          .expected = "orphan wait: missing notify",
          .story =
              "The attention rank is called with a type for which its kernel is empty. It neither sends nor says so, "
              "and the expert waits. An operator that cannot do what it is asked for is an error on every rank.",
          .run = kernel("a2e", [](runtime::CoreContext& context) {
            if (context.rank() == Rank{0}) return;  // fp16: no code
            runtime::ZeroBufferSync sync(context);
            sync.wait_flag(Rank{0}, 0, 1).ordering_only();
          })};
}

}  // namespace shmoe::apps
