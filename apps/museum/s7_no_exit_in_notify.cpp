// overwrite before read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_exit_in_notify() {
  return {.name = "S7",
          .what = "notify has no exit barrier, and the next layout counts in the same table",
          .expected = "overwrite before read",
          .story =
              "A fast rank leaves notify and lays out its next batch while a slow one still reads its counts: the slow "
              "rank mixes two batches, and the offsets of the ranks differ. Two tables by turns cure it, or a dispatch "
              "between the layouts.",
          .checked = ep::launches({ep::kLayout, ep::kNotify, ep::kLayout})};
}

}  // namespace shmoe::apps
