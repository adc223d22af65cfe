// unordered read
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit token_dropped() {
  return {.name = "D10",
          .what = "nobody consumes the token of the wait, so the compiler deletes the wait",
          .expected = "unordered read",
          .story =
              "On the accelerator a wait is kept only if the load depends on its token. What is left is this: the "
              "consumer loads at once. Here a token that is not consumed is an error of the compiler.",
          .cores = 2,
          .slots = credit::declare,
          .checked = checked_kernel("reverse_all2all", [](runtime::CoreContext& context) {
            if (context.core() == Core{0}) {
              return credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
                credit::await_credit(context, target, block, task);
                credit::store(context, target, block, task);
                context.fence(target);
                credit::notify(context, target, block, task);
              });
            }
            credit::each_task(context, [&](std::uint32_t block, Rank source, std::uint32_t task) {
              credit::load(context, source, block, task, shmem::Witness::own());
              credit::give_back(context, source, block, task);
            });
          })};
}

}  // namespace shmoe::apps
