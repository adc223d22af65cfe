// deadline passed
#include <cstdlib>

#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit rank_missing() {
  return {.name = "H21",
          .what = "one rank of three is never started",
          .expected = "deadline passed",
          .story =
              "As published rank 0 waits for its connection for ever, and the others for rank 0. Here the ranks that "
              "came leave together, after SHMOE_BOOTSTRAP_TIMEOUT_S, and name the one that did not.",
          .ranks = 3,
          .settings =
              [](Rank rank, runtime::Config& config) {
                config.bootstrap_timeout = std::chrono::milliseconds{500};
                if (rank == Rank{2}) std::_Exit(EXIT_SUCCESS);
              },
          .run = [](runtime::World&) { return Result<void>{}; }};
}

}  // namespace shmoe::apps
