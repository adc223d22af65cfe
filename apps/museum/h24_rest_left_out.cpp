// mismatch
#include "apps/check/kernels.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit rest_left_out() {
  return {.name = "H24",
          .what = "each core takes L / C elements, and C does not divide L",
          .expected = "mismatch",
          .story =
              "Of 23 elements two cores take 11 each, and nobody takes the last. Our slices differ by one at most and "
              "cover everything.",
          .cores = 2,
          .run = kernel("reduce_scatter", [](runtime::CoreContext& context) {
            constexpr std::size_t kElements = 23;
            const std::size_t share = kElements / static_cast<std::size_t>(context.cores());
            const std::vector<std::int32_t> ones(share, 1);
            context.put(context.rank(), Offset{4 * share * context.core().index()}, ones);
            const shmem::Witness all = context.sync_all();
            std::vector<std::int32_t> sums(kElements);
            context.get(context.rank(), Offset{0}, sums, all);
            if (sums.back() != 1) wrong(context, "the last element");
          })};
}

}  // namespace shmoe::apps
