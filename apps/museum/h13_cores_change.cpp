// overwrite before read
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit cores_change() {
  return {
      .name = "H13",
      .what = "a2e is called on four cores first, and on eight later",
      .expected = "overwrite before read",
      .story =
          "Every core counts the calls it takes part in. In the second call cores 4 to 7 are in their first, and use "
          "the half of the first call. They send over what the expert may still read there, and wait for flags that "
          "lie there since the first call. Where the counts happen to be compared the same drift is a deadlock: S9.",
      .cores = 8,
      .profile = kFaithful202607,
      .slots = afd::declare,
      .checked = [](runtime::Communicator& comm) -> Result<void> {
        Result<afd::Side> side = afd::Side::on(comm, {});
        if (!side) return side.error();
        for (const std::int32_t cores : {4, 8}) {
          if (Result<void> done = side->a2e_on(cores); !done) return done;
        }
        return {};
      }};
}

}  // namespace shmoe::apps
