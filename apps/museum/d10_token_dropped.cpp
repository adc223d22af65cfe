// unordered read
#include "apps/museum/all2all.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit token_dropped() {
  return {.name = "D10",
          .what = "nobody consumes the token of the consumer's wait, so the compiler deletes the wait",
          .expected = "unordered read",
          .story =
              "On the accelerator a wait is kept only if the load depends on its token. What is left is this: the "
              "consumer of the all-to-all loads at once. Here a token that is not consumed is an error of the "
              "compiler.",
          .cores = 2,
          .slots = all2all::slots(all2all::problem()),
          .checked = all2all::once({.wait_full = true})};
}

}  // namespace shmoe::apps
