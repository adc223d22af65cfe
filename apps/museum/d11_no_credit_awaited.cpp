// overwrite before read
#include "apps/museum/all2all.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_credit_awaited() {
  return {
      .name = "D11",
      .what = "the producer of the all-to-all does not wait for its credit",
      .expected = "overwrite before read",
      .story =
          "As long as the consumer keeps up all is well. When it does not, the producer stores block 2 over block 0, "
          "which nobody has read, and its notify of a full slot is lost. In strict mode a live job is refused at that "
          "notify.",
      .cores = 2,
      .slots = all2all::slots(all2all::problem()),
      .checked = all2all::once({.wait_free = true})};
}

}  // namespace shmoe::apps
