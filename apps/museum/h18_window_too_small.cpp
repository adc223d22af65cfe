// broken contract
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit window_too_small() {
  return {.name = "H18",
          .what = "a fixed offset that lies beyond a smaller window",
          .expected = "broken contract",
          .story =
              "The published half of odd calls begins at 800 MiB, whatever size the window has. The first call reads "
              "and writes outside it. Here a place outside the block is refused with both sizes.",
          .run = kernel("a2e", [](runtime::CoreContext& context) {
            const std::uint64_t row = 1;
            context.put(Rank{1 - context.rank().value()}, Offset{std::uint64_t{800} << 20}, std::span{&row, 1});
          })};
}

}  // namespace shmoe::apps
