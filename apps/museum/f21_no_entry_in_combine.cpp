// unordered read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_entry_in_combine() {
  return {.name = "F21",
          .what = "combine without its entry barrier",
          .expected = "unordered read",
          .story =
              "Combine reads the answers of all ranks, and the experts of a slow rank have not written them yet: it "
              "adds up those of the step before.",
          .checked = ep::launches({ep::kLayout, ep::kNotify, ep::kDispatch, ep::kExperts, {"combine", ep::gather}})};
}

}  // namespace shmoe::apps
