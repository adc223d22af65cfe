// unordered write
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit slots_share_a_line() {
  return {.name = "D21",
          .what = "eight slots lie in one line of 64 bytes, and two cores write it back",
          .expected = "unordered write",
          .story =
              "A core without coherent caches writes whole lines. Both have the line in their cache with all slots 0, "
              "change one slot each, and write back all eight: the slot that the other one has set is 0 again. Slots "
              "that different cores write need lines of their own, as ours have.",
          .cores = 2,
          .checked = checked_kernel("notify", [](runtime::CoreContext& context) {
            if (context.rank() != Rank{0}) return;
            std::uint64_t line[8] = {};
            line[context.core().index()] = 1;
            context.put(Rank{1}, Offset{0}, line);
          })};
}

}  // namespace shmoe::apps
