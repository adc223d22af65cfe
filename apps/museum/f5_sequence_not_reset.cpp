// overrun: magic drift
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {
namespace {

/// One barrier of a kernel, numbered by hand.
void numbered_barrier(runtime::CoreContext& context, std::uint64_t magic, std::uint32_t sequence) {
  const std::uint64_t word = shmem::published_word(magic, sequence);
  const Rank peer{1 - context.rank().value()};
  const shmem::SlotFamily& family = context.slots().flag();
  context.signal(peer, family.at(magic & 1, context.rank()), shmem::SignalOp::set, word);
  context.wait(family.at(magic & 1, peer), Compare::equal, word).ordering_only();
}

}  // namespace

Exhibit sequence_not_reset() {
  return {.name = "F5",
          .what = "one rank goes on counting barriers where a new kernel begins with 1",
          .expected = "overrun: magic drift",
          .story =
              "The word of a barrier is (magic, number of the barrier in the kernel). Rank 1 does not begin anew, so "
              "its first barrier of the second kernel is (3, 2) where rank 0 looks for (3, 1). Both have signalled "
              "each other equally often, which tells it from an overtaken barrier.",
          .profile = kFaithful202607,
          .run = [](runtime::World& world) -> Result<void> {
            for (std::uint64_t magic = 2; magic <= 3; ++magic) {
              const bool faulty = world.rank() == Rank{1} && magic == 3;
              const Result<void> done = world.all().launch(
                  "step", [=](runtime::CoreContext& context) { numbered_barrier(context, magic, faulty ? 2 : 1); });
              if (!done) return done;
            }
            return {};
          }};
}

}  // namespace shmoe::apps
