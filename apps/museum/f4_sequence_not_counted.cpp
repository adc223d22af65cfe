// unordered read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"
#include "apps/museum/hand_barrier.hpp"

namespace shmoe::apps {

Exhibit sequence_not_counted() {
  return {
      .name = "F4",
      .what = "the second barrier of a kernel has the number of the first",
      .expected = "unordered read",
      .story =
          "Dispatch enters, sends its rows, and leaves through a barrier whose word has been there since the entry. It "
          "passes at once, and the experts begin with rows missing. No wait is stuck, so only what is read tells.",
      .profile = kFaithful202607,
      .checked = checked_kernel("dispatch", [](runtime::CoreContext& context) {
        const std::uint64_t word = shmem::published_word(1, 1);
        hand::tell(context, 1, word);
        hand::hear(context, 1, word);
        ep::send_rows(context);
        context.quiet();
        hand::tell(context, 1, word);
        hand::hear(context, 1, word);
        ep::experts(context);
      })};
}

}  // namespace shmoe::apps
