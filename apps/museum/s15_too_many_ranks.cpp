// unordered read
#include "apps/museum/exhibits.hpp"
#include "ops/low_latency/region.hpp"

namespace shmoe::apps {
namespace {

constexpr std::uint64_t kMagic = 1;
constexpr Offset kCount{0x8000};

/// Counts of all ranks, each behind its status.
void collect_counts(runtime::CoreContext& context) {
  const shmem::SlotFamily& status = context.slots().family("ll_status");
  const Rank beyond{8 * context.cores()};
  std::uint64_t count = 1;
  context.put(context.rank(), kCount, std::span<const std::uint64_t>{&count, 1});
  for (Rank rank{0}; rank.value() < context.ranks(); ++rank) {
    context.signal(rank, status.at(0, context.rank()), shmem::SignalOp::set, kMagic);
  }
  for (Rank rank{0}; rank.value() < context.ranks(); ++rank) {
    const Rank word_of = rank == beyond ? context.rank() : rank;
    const shmem::Witness told = consume_token(context.wait(status.at(0, word_of), Compare::equal, kMagic));
    context.get(rank, kCount, std::span{&count, 1}, told);
  }
}

}  // namespace

Exhibit too_many_ranks() {
  return {
      .name = "S15",
      .what = "more ranks than 8 for each core: the layout status of rank 8 C lies on a word of the waiter's own",
      .expected = "unordered read",
      .story =
          "As published, the status of all ranks has 32 bytes a core, and behind it each core keeps its own magic. "
          "The status of rank 8 is that word, so the wait for it ends at once, and its counts are read before they "
          "are there. Here the operator refuses so many ranks in a published profile, and this kernel shows what it "
          "would do.",
      .ranks = 9,
      .profile = kFaithful202607,
      .slots = ops::declare_low_latency,
      .checked = checked_kernel("dispatch", collect_counts)};
}

}  // namespace shmoe::apps
