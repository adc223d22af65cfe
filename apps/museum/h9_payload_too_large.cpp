// invalid argument
#include "apps/museum/detour.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit payload_too_large() {
  return {.name = "H9",
          .what = "a shard is longer than its slot, and the flags of the next slot lie behind it",
          .expected = "invalid argument",
          .story =
              "A slot holds 4096 bytes here beside its flags, and the shard has two more. As published they are "
              "stored over the flags of the next slot: waits end that should not, or never. Here the call is refused, "
              "with both sizes.",
          .profile = kFaithful202607,
          .settings = detour::window(2),
          .slots = detour::declare,
          .run = [](runtime::World& world) {
            constexpr std::int64_t kFits = static_cast<std::int64_t>(detour::kPayload.value()) / detour::kElement;
            return detour::all_to_all(world, {.members = {Rank{0}, Rank{1}}, .elements = 2 * (kFits + 1)});
          }};
}

}  // namespace shmoe::apps
