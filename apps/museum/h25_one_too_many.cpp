// invalid argument
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit one_too_many() {
  return {
      .name = "H25",
      .what = "communicator 64, where the table has 64",
      .expected = "invalid argument",
      .story = "As published the table is written behind its end. Here the number is refused, with how many there are.",
      .communicators = runtime::Config::kMostCommunicators,
      .run = [](runtime::World& world) -> Result<void> {
        const auto made = world.communicator(runtime::CommunicatorId{runtime::Config::kMostCommunicators},
                                             std::vector{Rank{0}, Rank{1}});
        return made ? Result<void>{} : Result<void>{made.error()};
      }};
}

}  // namespace shmoe::apps
