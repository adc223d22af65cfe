// clean
#include "apps/museum/all2all.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit credits() {
  return {.name = "D0",
          .what = "the all-to-all as it should be",
          .expected = "clean",
          .story =
              "Wait for the credit, store, fence, notify; wait for the notify, load, give back. It is here so that you "
              "can see what silence looks like: none of the schedules fails.",
          .cores = 2,
          .slots = all2all::slots(all2all::problem()),
          .checked = all2all::once({})};
}

}  // namespace shmoe::apps
