// unordered read
#include "apps/museum/credit.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_fence() {
  return {
      .name = "D9",
      .what = "no fence between the store and the notify",
      .expected = "unordered read",
      .story =
          "The notify overtakes the word that it announces. On x86 nothing of it is to be seen, and every test passes.",
      .cores = 2,
      .slots = credit::declare,
      .checked = checked_kernel("reverse_all2all", [](runtime::CoreContext& context) {
        if (context.core() == Core{1}) return credit::consume_words(context);
        credit::each_task(context, [&](std::uint32_t block, Rank target, std::uint32_t task) {
          credit::await_credit(context, target, block, task);
          credit::store(context, target, block, task);
          credit::notify(context, target, block, task);
        });
      })};
}

}  // namespace shmoe::apps
