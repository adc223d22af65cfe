// unordered read
#include "apps/museum/exhibits.hpp"
#include "runtime/legacy_sync.hpp"

namespace shmoe::apps {

Exhibit segment_not_zeroed() {
  return {.name = "H26",
          .what = "a job starts again on the memory of the last one, and its calls count from 1 again",
          .expected = "unordered read",
          .story =
              "The first call of the second run waits for magic 1, which lies there since the first call of the first "
              "run: it reads a row that has not come. Here a segment is created exclusively and zeroed, and a name "
              "that a dead job left is cleaned and never taken over.",
          .profile = kFaithful202607,
          .slots =
              [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
                runtime::LegacySync::declare(plan, "detour", map.user_data.at, map.shape.ranks, map.shape.cores);
              },
          .checked = [](runtime::Communicator& comm) -> Result<void> {
            for (int run = 0; run < 2; ++run) {
              const Result<void> done = comm.launch("detour", [run](runtime::CoreContext& context) {
                const auto flags = runtime::LegacySync::of(context.slots(), "detour");
                runtime::LegacySync sync(context, flags, Round{1});
                const Offset row{4096 + 8 * static_cast<std::uint64_t>(run)};
                std::uint64_t word = 1;
                if (context.rank() == Rank{0}) {
                  context.put(Rank{1}, row, std::span<const std::uint64_t>{&word, 1});
                  return sync.set_sync(Rank{1}, 1);
                }
                const shmem::Witness there = consume_token(sync.wait_sync(Rank{1}, Rank{0}, 1));
                context.get(Rank{1}, row, std::span{&word, 1}, there);
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
