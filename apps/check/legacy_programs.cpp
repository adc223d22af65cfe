// The flags of the older operators: words in the own memory that everybody looks at, and words in a neighbour's.

#include "apps/check/kernels.hpp"
#include "apps/check/operators.hpp"
#include "runtime/legacy_sync.hpp"

namespace shmoe::apps {
namespace {

using runtime::CoreContext;
using runtime::LegacySync;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;
using runtime::check::Shape;

constexpr const char* kLegacyNames[] = {"legacy even", "legacy odd"};
constexpr Bytes kLegacyFlags{32 * 1024};
constexpr Bytes kLegacyHalf{8 * 1024};
constexpr Offset kLegacyWords{0};

/// Flags and words in two halves by turns: a flag of the next call would hide the one that is looked for, and whoever is two
/// calls ahead has seen that every rank has left the first.
class LegacyCall {
 public:
  explicit LegacyCall(CoreContext& context)
      : context_(context),
        magic_(runtime::ZeroBufferSync(context).round().value() + 1),
        sync_(context, LegacySync::of(context.slots(), kLegacyNames[magic_ % 2]), Round{magic_}) {}

  [[nodiscard]] LegacySync& sync() { return sync_; }
  [[nodiscard]] Rank right() const { return Rank{(context_.rank().value() + 1) % context_.ranks()}; }
  [[nodiscard]] Rank left() const { return Rank{(context_.rank().value() + context_.ranks() - 1) % context_.ranks()}; }

  /// This core's word for one step, into a rank's memory.
  void write(Rank memory, std::uint32_t step) {
    const std::uint64_t word = word_of(step);
    context_.put(memory, place(step, context_.core()), std::span<const std::uint64_t>{&word, 1});
  }
  void expect(Rank memory, Core core, std::uint32_t step, const shmem::Witness& arrived) {
    std::uint64_t word = 0;
    context_.get(memory, place(step, core), std::span{&word, 1}, arrived);
    if (word != word_of(step)) wrong(context_, "a word behind a legacy flag");
  }
  void expect_all(Rank memory, std::uint32_t step, const shmem::Witness& arrived) {
    for (Core core{0}; core.value() < context_.cores(); ++core) expect(memory, core, step, arrived);
  }
  void expect_all(std::uint32_t step, const shmem::Witness& arrived) {
    for (Rank rank{0}; rank.value() < context_.ranks(); ++rank) expect_all(rank, step, arrived);
  }

 private:
  [[nodiscard]] std::uint64_t word_of(std::uint32_t step) const { return magic_ * 16 + step; }
  [[nodiscard]] Offset place(std::uint32_t step, Core core) const {
    return kLegacyWords + Bytes{4096 * (magic_ % 2) + 512 * std::uint64_t{step} + 8 * core.index()};
  }

  CoreContext& context_;
  std::uint64_t magic_;
  LegacySync sync_;
};

/// Inner flags for the cores of the rank, outer ones for all ranks, then a word to the right with a flag in its memory.
Body legacy_flags(const Setting& setting) {
  return every_round(setting, "legacy flags", [](CoreContext& context) {
    LegacyCall call(context);
    call.write(context.rank(), 1);
    call.sync().set_inner(1);
    call.expect_all(context.rank(), 1, call.sync().wait_rank_inner(context.rank(), 1));
    call.write(context.rank(), 2);
    call.sync().set_outer(2);
    // Step 2 is at least step 1.
    call.expect_all(call.right(), 2, call.sync().wait_one_rank_outer(call.right(), 1));
    if (context.core() == Core{0}) {
      call.write(call.right(), 3);
      call.sync().set_sync(call.right(), 1);
      call.expect(context.rank(), Core{0}, 3, consume_token(call.sync().wait_sync(context.rank(), call.left(), 1)));
    }
    call.write(context.rank(), 4);
    call.sync().set_outer(3);
    call.expect_all(4, call.sync().wait_all_rank_outer(3));
  });
}

/// Polled instead of waited for, and one core at a time.
Body legacy_polls(const Setting& setting) {
  return every_round(setting, "legacy polls", [](CoreContext& context) {
    LegacyCall call(context);
    call.write(context.rank(), 1);
    call.sync().set_inner(1);
    call.sync().set_outer(1);
    const Core next{(context.core().value() + 1) % context.cores()};
    while (!call.sync().check_inner(context.rank(), next, 1)) {
    }
    call.expect(context.rank(), next, 1, shmem::Witness::own());
    while (!call.sync().check_outer(call.right(), next, 1)) {
    }
    call.expect(call.right(), next, 1, shmem::Witness::own());
    while (!call.sync().check_all_rank_outer(1)) {
    }
    call.expect_all(1, shmem::Witness::own());
  });
}

void legacy_slots(const Setting& /*setting*/, Shape& shape) {
  shape.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    for (const std::uint64_t half : {std::uint64_t{0}, std::uint64_t{1}}) {
      LegacySync::declare(plan, kLegacyNames[half], map.user_data.at + kLegacyFlags + kLegacyHalf * half,
                          map.shape.ranks, map.shape.cores);
    }
  };
}

}  // namespace

std::vector<Program> legacy_programs() {
  return {
      {.name = "legacy_flags",
       .what = "the older flags: inner, outer, and in a neighbour's memory",
       .shape = legacy_slots,
       .make = legacy_flags},
      {.name = "legacy_polls",
       .what = "the older flags, polled instead of waited for",
       .shape = legacy_slots,
       .make = legacy_polls},
  };
}

}  // namespace shmoe::apps
