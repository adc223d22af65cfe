// mismatch
#include "apps/check/kernels.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit no_fence_in_processes() {
  return {
      .name = "D9W",
      .what = "D9 in processes: the store is held back, and the notify overtakes it",
      .expected = "mismatch",
      .story =
          "Rank 1 stores a word and notifies, without a fence in between. Here the store stays with its core, as on "
          "a network it may: rank 0 is notified and reads what lay there before. With the fence the notify would "
          "stay behind the store, and with a quiet both would arrive.",
      .faults = "rank 1 in store put 1: hold",
      .run = kernel("store", [](runtime::CoreContext& context) {
        const auto flag_of = [&](Rank source) { return context.slots().flag().at(0, source); };
        const std::uint64_t word = 7;
        if (context.rank() == Rank{1}) {
          context.put(Rank{0}, Offset{0U}, std::span{&word, 1});
          context.signal(Rank{0}, flag_of(Rank{1}), shmem::SignalOp::set, 1);
          context.wait(flag_of(Rank{0}), Compare::at_least, 1).ordering_only();
          return;
        }
        const shmem::Witness notified = consume_token(context.wait(flag_of(Rank{1}), Compare::at_least, 1));
        std::uint64_t read = 0;
        context.get(Rank{0}, Offset{0U}, std::span{&read, 1}, notified);
        context.signal(Rank{1}, flag_of(Rank{0}), shmem::SignalOp::set, 1);
        if (read != word) wrong(context, "a word that the notify has overtaken");
      })};
}

}  // namespace shmoe::apps
