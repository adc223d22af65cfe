// deadlock cycle: slots share a line
#include "apps/museum/exhibits.hpp"

namespace shmoe::apps {
namespace {

/// Two slots of 32 bytes.
constexpr std::size_t kLineWords = 8;
constexpr std::size_t kSlotWords = shmem::kSlotStride / sizeof(std::uint64_t);

/// One core's copy of a line of the peer, as a cache holds it that is not coherent.
class CachedLine {
 public:
  CachedLine(runtime::CoreContext& context, Rank owner, Offset at) : context_(&context), owner_(owner), at_(at) {
    context.get(owner, at, words_, shmem::Witness::own());
  }
  /// Sets one slot and writes the line back: the slots beside it become what they were when the line was loaded.
  void set(Slot slot, std::size_t place, std::uint64_t value) {
    context_->signal(owner_, slot, shmem::SignalOp::set, value);
    words_[place * kSlotWords] = value;
    for (std::size_t word = 0; word < kLineWords; word += kSlotWords) {
      context_->put(owner_, at_ + Bytes{8 * word}, std::span(&words_[word], 1));
    }
    context_->quiet();
  }

 private:
  runtime::CoreContext* context_;
  Rank owner_;
  Offset at_;
  std::uint64_t words_[kLineWords] = {};
};

void notify_from_two_cores(runtime::CoreContext& context) {
  runtime::ZeroBufferSync sync(context);
  const Rank peer{1 - context.rank().value()};
  const shmem::SlotFamily& family = context.slots().family("task");
  const Slot mine = family.at(0, context.rank(), static_cast<std::uint32_t>(context.core().value()));
  const Offset line = context.slots().offset_of(family.at(0, context.rank(), 0));
  CachedLine cached(context, peer, line);
  context.sync_all();  // both have loaded the line
  if (context.core() == Core{0}) cached.set(mine, 0, 1);
  context.sync_all();
  if (context.core() == Core{1}) cached.set(mine, 1, 1);
  sync.barrier_all();  // nobody looks before both are written
  const Slot theirs = family.at(0, peer, static_cast<std::uint32_t>(context.core().value()));
  context.wait(theirs, Compare::equal, 1).ordering_only();
}

}  // namespace

Exhibit slots_share_a_line() {
  return {.name = "D21",
          .what = "two slots lie in one line of 64 bytes, and the cores that set them write whole lines back",
          .expected = "deadlock cycle: slots share a line",
          .story =
              "A core without coherent caches writes whole lines. Both have loaded the line with both slots 0, set one "
              "each, and write both back: the slot that the other one has set is 0 again. Its ledger says 1, and "
              "nobody who may write the slot has taken it away. On such a machine a slot needs a line of its own. The "
              "caches here are coherent: our slots lie 32 bytes apart, two in a line, and lose nothing by it.",
          .cores = 2,
          .slots =
              [](shmem::SlotPlan& slots, const shmem::BlockMap& map) {
                slots.declare({.name = "task",
                               .base = map.user_data.at,
                               .sources = static_cast<std::uint32_t>(slots.ranks()),
                               .events = 2});
              },
          .run = kernel("notify", notify_from_two_cores)};
}

}  // namespace shmoe::apps
