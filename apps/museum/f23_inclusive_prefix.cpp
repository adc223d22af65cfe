// mismatch
#include "apps/check/kernels.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit inclusive_prefix() {
  return {.name = "F23",
          .what = "combine takes a table of inclusive sums for one of exclusive sums",
          .expected = "mismatch",
          .story =
              "Dispatch puts the rows of source s behind those of the sources before it. Combine begins where they "
              "end: every answer is one segment off, the last one was never written, and nothing hangs. A test with a "
              "reference finds it, and nothing else.",
          .run = [](runtime::World& world) -> Result<void> {
            runtime::Communicator& comm = world.all();
            const auto answer = [](Rank source) { return 100 + source.index(); };
            const Result<void> sent = comm.launch("dispatch", [&](runtime::CoreContext& context) {
              const std::uint64_t word = answer(context.rank());
              context.put(Rank{0}, Offset{8 * context.rank().index()}, std::span{&word, 1});
            });
            if (!sent) return sent;
            if (Result<void> met = comm.barrier(); !met) return met;
            return comm.launch("combine", [&](runtime::CoreContext& context) {
              std::uint64_t word = 0;
              const std::size_t inclusive = context.rank().index() + 1;
              context.get(Rank{0}, Offset{8 * inclusive}, std::span{&word, 1}, shmem::Witness::own());
              if (word != answer(context.rank())) wrong(context, "an answer of another rank");
            });
          }};
}

}  // namespace shmoe::apps
