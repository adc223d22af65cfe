// unordered read
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit cores_change() {
  return {.name = "H13",
          .what = "a group is called on one core first, and on two cores later",
          .expected = "unordered read",
          .story =
              "Every core counts the calls it takes part in. In the second call core 1 is in its first round: the flag "
              "that core 0 set in the first call is what it waits for, so it reads a row that has not come. Where the "
              "counts happen to be compared the same drift is a deadlock: S9.",
          .cores = 2,
          .profile = kFaithful202607,
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            for (const std::int32_t cores : {1, 2}) {
              const Result<void> done = comm.launch("a2e", cores, [](runtime::CoreContext& context) {
                runtime::ZeroBufferSync sync(context);
                const Offset row{8 * static_cast<std::uint64_t>(context.cores())};
                std::uint64_t word = 1;
                const bool last = context.core().value() == context.cores() - 1;
                if (context.rank() == Rank{0}) {
                  if (context.core() == Core{0}) context.put(Rank{1}, row, std::span<const std::uint64_t>{&word, 1});
                  sync.set_flag(Rank{1}, static_cast<std::uint32_t>(context.core().value()), 1);
                } else if (last) {
                  const shmem::Witness there = consume_token(sync.wait_flag(Rank{0}, 0, 1));
                  context.get(Rank{1}, row, std::span{&word, 1}, there);
                }
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
