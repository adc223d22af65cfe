// undelivered: missing quiet
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit answer_before_quiet() {
  return {.name = "QUIET",
          .what = "a core asks, and waits for the answer before its question is complete",
          .expected = "undelivered: missing quiet",
          .story =
              "Rank 1 stores a question, fences, notifies and waits. A fence only says what comes first: the notify "
              "stays behind the store, and the store is never completed. Both lie with rank 1, which waits for rank 0, "
              "which waits for the notify. The ledger counts it as sent and not as delivered. A quiet before the wait "
              "lets both go.",
          .faults = "rank 1 in ask put 1: hold",
          .run = kernel("ask", [](runtime::CoreContext& context) {
            const auto flag_of = [&](Rank source) { return context.slots().flag().at(0, source); };
            const Rank asks{1};
            const Rank answers{0};
            if (context.rank() == answers) {
              context.wait(flag_of(asks), Compare::at_least, 1).ordering_only();
              context.signal(asks, flag_of(answers), shmem::SignalOp::set, 1);
              return;
            }
            const std::uint64_t question = 6;
            context.put(answers, Offset{0U}, std::span{&question, 1});
            context.fence(answers);
            context.signal(answers, flag_of(asks), shmem::SignalOp::set, 1);
            context.wait(flag_of(answers), Compare::at_least, 1).ordering_only();
          })};
}

}  // namespace shmoe::apps
