// unordered read
#include "apps/museum/ep.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit round_counted_twice() {
  return {
      .name = "F2",
      .what = "all ranks forget to count one round, and the next kernel takes it again",
      .expected = "unordered read",
      .story =
          "The barrier of the next kernel looks for the word that lies there already, and passes at once: no deadlock, "
          "and no barrier. After a kernel of two barriers the last word is another one, and it works by luck.",
      .profile = kFaithful202607,
      .checked = [](runtime::Communicator& comm) -> Result<void> {
        if (Result<void> done = ep::launch(comm, {ep::kLayout, ep::kNotify}); !done) return done;
        comm.local<std::uint64_t>(comm.map().magic_of(Core{0}), 1)[0] -= 1;
        return ep::launch(comm, {ep::kExperts, ep::kCombine});
      }};
}

}  // namespace shmoe::apps
