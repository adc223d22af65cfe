// unordered read
#include "apps/museum/all2all.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_fence() {
  return {
      .name = "D9",
      .what = "no fence between the stores of the all-to-all and their notifies",
      .expected = "unordered read",
      .story =
          "The notify overtakes the rows that it announces. On x86 nothing of it is to be seen, and every test passes.",
      .cores = 2,
      .slots = all2all::slots(all2all::problem()),
      .checked = all2all::once({.fence = true})};
}

}  // namespace shmoe::apps
