// deadlock cycle: operator order differs
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit non_member_skips() {
  return {.name = "H2",
          .what = "a rank that is no member of a group skips the call that all ranks must make",
          .expected = "deadlock cycle: operator order differs",
          .story =
              "The magic of the detour operators counts calls, also those in which a rank moves nothing. Rank 2 takes "
              "itself for no member, makes one call less, and goes on to the end of the job, while the others wait "
              "for its flag.",
          .ranks = 3,
          .run = [](runtime::World& world) -> Result<void> {
            const int calls = world.rank() == Rank{2} ? 1 : 2;
            for (int call = 0; call < calls; ++call) {
              const Result<void> done = world.all().launch("all_to_all", [](runtime::CoreContext& context) {
                runtime::ZeroBufferSync sync(context);
                sync.set_flag_batch(Rank{0}, Rank{context.ranks()}, 0, 1);
                sync.wait_flag_batch(Rank{0}, Rank{context.ranks()}, 0, 1);
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
