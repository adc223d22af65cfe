// unordered write
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit row_spills_over() {
  return {.name = "S11",
          .what = "each core writes its row of counts in whole blocks of 32 bytes, and a row is shorter",
          .expected = "unordered write",
          .story =
              "Four experts make a row of 16 bytes. The transfer of core 0 takes 32 and writes whatever lies behind "
              "its own counts over the row of core 1. A row needs its exact length, or a stride of whole blocks.",
          .ranks = 1,
          .cores = 3,
          .checked = checked_kernel("layout", [](runtime::CoreContext& context) {
            constexpr std::size_t kExperts = 4;
            const std::vector<std::int32_t> transfer(kExperts + 4);
            context.put(context.rank(), Offset{4 * kExperts * context.core().index()}, transfer);
          })};
}

}  // namespace shmoe::apps
