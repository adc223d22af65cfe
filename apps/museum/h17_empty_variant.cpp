// orphan wait: missing notify
// The attention rank runs an empty kernel in place of a2e, because the operator refuses an element type for which the
// published kernel is empty.
#include "apps/museum/afd.hpp"
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {

Exhibit empty_variant() {
  return {.name = "H17",
          .what = "a2e has no kernel for the element type of the attention rank, which returns at once",
          .expected = "orphan wait: missing notify",
          .story =
              "The attention rank is called with fp16, for which its kernel is empty. It neither sends nor says so, "
              "and counts no call: the expert waits for 0x100000000 and sees 0. An operator that cannot do what it is "
              "asked for is an error, as it is here in every profile.",
          .cores = 4,
          .profile = kFaithful202607,
          .slots = afd::declare,
          .run = [](runtime::World& world) -> Result<void> {
            start_from_zero(world);
            Result<afd::Side> side = afd::Side::on(world.all(), {});
            if (!side) return side.error();
            if (world.rank() == Rank{0}) return side->a2e();
            return world.all().launch("a2e", [](runtime::CoreContext&) {});  // fp16: no code
          }};
}

}  // namespace shmoe::apps
