// broken contract
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit flat_task_number() {
  return {.name = "D5",
          .what = "the slot is computed from the flat number of a task",
          .expected = "broken contract",
          .story =
              "The flat number counts the tasks of all sources, and a slot is numbered within its source. The formula "
              "leaves the array, and as published it writes behind it. Here the family knows its bounds.",
          .slots = credit::declare,
          .run = kernel("reverse_all2all", [](runtime::CoreContext& context) {
            const auto ranks = static_cast<std::uint32_t>(context.ranks());
            credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
              const std::uint32_t flat = task * ranks + static_cast<std::uint32_t>(target.value());
              credit::fill(context, target, block, flat);
            });
          })};
}

}  // namespace shmoe::apps
