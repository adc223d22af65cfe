// overwrite before read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_exit_in_combine() {
  return {.name = "S6",
          .what = "combine has no exit barrier, and the experts' buffer is refilled at once",
          .expected = "overwrite before read",
          .story =
              "Combine reads the answers at their owners. A rank that is through with it does not know whether its "
              "peers are, and fills its own buffer with the answers of the next step. It may do so only behind its "
              "next notify barrier.",
          .checked = ep::launches({ep::kLayout, ep::kNotify, ep::kDispatch, ep::kExperts, ep::kCombine, ep::kExperts})};
}

}  // namespace shmoe::apps
