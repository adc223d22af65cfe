// overrun: buffer reused too early
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit group_changes() {
  return {.name = "H3",
          .what = "a call on ranks 0 and 1, one on 0 and 2, and again one on 0 and 1",
          .expected = "overrun: buffer reused too early",
          .story =
              "Rank 1 has nothing to do in the second call, so nothing keeps rank 0 back: in the third one it writes "
              "its flag over that of the first, which rank 1 has not seen. Two buffers are enough only between ranks "
              "that wait for each other in every call.",
          .ranks = 3,
          .profile = kFaithful202607,
          .faults = "rank 1 in detour launch 1 wait 1 flag: late",
          .run = [](runtime::World& world) -> Result<void> {
            for (const Rank partner : {Rank{1}, Rank{2}, Rank{1}}) {
              const Result<void> done = world.all().launch("detour", [partner](runtime::CoreContext& context) {
                runtime::ZeroBufferSync sync(context);  // every rank counts every call
                if (context.rank() != Rank{0} && context.rank() != partner) return;
                const Rank peer = context.rank() == partner ? Rank{0} : partner;
                sync.set_flag(peer, 0, 1);
                sync.wait_flag(peer, 0, 1).ordering_only();
              });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
