// The flags of the older operators: every kind of set and wait with data behind it, in every profile, over many calls.

#include "runtime/legacy_sync.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::Witness;

namespace {

constexpr Offset kCells{64 * 1024};

Config legacy_config(std::int32_t cores, const Profile& profile) {
  Config config = small_config(cores, profile);
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    LegacySync::declare(plan, "legacy", Offset{0}, map.shape.ranks, map.shape.cores);
  };
  return config;
}

/// A word of each core in its own rank's memory, which others read.
struct Cells {
  CoreContext& context;

  [[nodiscard]] static Offset at(Core core) { return kCells + Bytes{64 * core.index()}; }
  void write(std::uint64_t value) const {
    context.put(context.rank(), at(context.core()), std::span<const std::uint64_t>{&value, 1});
  }
  [[nodiscard]] int wrong(Rank rank, Core core, std::uint64_t value, const Witness& seen) const {
    std::uint64_t found = 0;
    context.get(rank, at(core), std::span{&found, 1}, seen);
    return found == value ? 0 : 1;
  }
  [[nodiscard]] int wrong_of(Rank rank, std::uint64_t value, const Witness& seen) const {
    int count = 0;
    for (Core core{0}; core.value() < context.cores(); ++core) count += wrong(rank, core, value, seen);
    return count;
  }
};

/// Returns how many cells were not what they had to be.
using LegacyStep = int (*)(CoreContext&, LegacySync&, const Cells&, std::uint64_t value);

int inner_flags(CoreContext& context, LegacySync& sync, const Cells& cells, std::uint64_t value) {
  sync.set_inner(1);
  const Core next{(context.core().value() + 1) % context.cores()};
  int wrong = cells.wrong(context.rank(), next, value, consume_token(sync.wait_inner(context.rank(), next, 1)));
  wrong += cells.wrong_of(context.rank(), value, sync.wait_rank_inner(context.rank(), 1));
  return wrong + (sync.check_inner(context.rank(), next, 1) ? 0 : 1);
}

int outer_flags(CoreContext& context, LegacySync& sync, const Cells& cells, std::uint64_t value) {
  sync.set_outer(3);
  const Rank right{(context.rank().value() + 1) % context.ranks()};
  // At least 2, as 3 is.
  int wrong = cells.wrong(right, Core{0}, value, consume_token(sync.wait_outer(right, Core{0}, 2)));
  wrong += cells.wrong_of(right, value, sync.wait_one_rank_outer(right, 3));
  return wrong + (sync.check_outer(right, Core{0}, 3) ? 0 : 1) + (sync.check_outer(right, Core{0}, 4) ? 1 : 0);
}

int all_ranks(CoreContext& context, LegacySync& sync, const Cells& cells, std::uint64_t value) {
  sync.set_outer(1);
  int wrong = 0;
  const Witness part = sync.wait_all_rank_part_outer(Core{context.cores() - 1}, 1, 1);
  for (Rank rank{0}; rank.value() < context.ranks(); ++rank) {
    wrong += cells.wrong(rank, Core{context.cores() - 1}, value, part);
  }
  const Witness all = sync.wait_all_rank_outer(1);
  for (Rank rank{0}; rank.value() < context.ranks(); ++rank) wrong += cells.wrong_of(rank, value, all);
  return wrong + (sync.check_all_rank_outer(1) ? 0 : 1);
}

/// Flags in the memory of a third rank, which does nothing.
int sync_flags(CoreContext& context, LegacySync& sync, const Cells& cells, std::uint64_t value) {
  const Rank memory{context.ranks() - 1};
  if (context.core() != Core{0}) return 0;
  sync.set_sync(memory, 1);
  int wrong = 0;
  for (Rank source{0}; source.value() < context.ranks(); ++source) {
    wrong += cells.wrong(source, Core{0}, value, consume_token(sync.wait_sync(memory, source, 1)));
    wrong += sync.check_sync(memory, source, 1) ? 0 : 1;
  }
  return wrong;
}

int wrong_cells(LegacyStep step, std::int32_t ranks, std::int32_t cores, const Profile& profile) {
  std::vector<int> wrong(static_cast<std::size_t>(ranks * cores));
  const auto body = [&](World& world) -> Result<void> {
    for (std::uint64_t call = 1; call <= 20; ++call) {
      Result<void> done = world.all().launch("legacy", [&](CoreContext& context) {
        LegacySync sync(context, LegacySync::of(context.slots(), "legacy"), Round{call});
        const Cells cells{context};
        cells.write(call);
        wrong[context.rank().index() * static_cast<std::size_t>(cores) + context.core().index()] +=
            step(context, sync, cells, call);
      });
      if (!done) return done;
      if (Result<void> met = world.all().barrier(); !met) return met;
    }
    return {};
  };
  check_all_well(run_ranks(ranks, legacy_config(cores, profile), body));
  int sum = 0;
  for (const int count : wrong) sum += count;
  return sum;
}

}  // namespace

TEST_CASE("legacy flags: what was written before a flag is read behind the wait for it") {
  for (const Profile& profile : kProfiles) {
    for (const auto& grid : {std::pair{1, 1}, {1, 3}, {2, 2}, {3, 2}, {4, 1}}) {
      const std::int32_t ranks = grid.first;
      const std::int32_t cores = grid.second;
      CAPTURE(name_of(profile.id));
      CAPTURE(ranks);
      CAPTURE(cores);
      CHECK(wrong_cells(inner_flags, ranks, cores, profile) == 0);
      CHECK(wrong_cells(outer_flags, ranks, cores, profile) == 0);
      CHECK(wrong_cells(all_ranks, ranks, cores, profile) == 0);
      CHECK(wrong_cells(sync_flags, ranks, cores, profile) == 0);
    }
  }
}

TEST_CASE("legacy flags: a word is the magic and the step, and a later magic does not end a wait") {
  for (const Profile& profile : {kSafe, kFaithful202607}) {
    const bool published = profile.flag_word == FlagWord::magic32_value32;
    const int shift = published ? 32 : 16;
    const auto body = [&](World& world) {
      return world.all().launch("legacy", [&](CoreContext& context) {
        const LegacySync::Flags flags = LegacySync::of(context.slots(), "legacy");
        LegacySync first(context, flags, Round{7});
        LegacySync second(context, flags, Round{8});
        first.set_outer(2);
        std::uint64_t word = 0;
        context.get(context.rank(), flags.outer.base, std::span{&word, 1}, Witness::own());
        CHECK(word == ((std::uint64_t{7} << shift) | 2));
        CHECK(first.check_outer(context.rank(), Core{0}, 1));
        CHECK(first.check_outer(context.rank(), Core{0}, 2));
        CHECK_FALSE(first.check_outer(context.rank(), Core{0}, 3));
        CHECK_FALSE(second.check_outer(context.rank(), Core{0}, 0));
        second.set_outer(1);
        CHECK_FALSE(first.check_outer(context.rank(), Core{0}, 1));
        CHECK(second.check_outer(context.rank(), Core{0}, 1));
      });
    };
    check_all_well(run_ranks(1, legacy_config(1, profile), body));
  }
}

// The published magic has 32 bits in the word, and starts again long before.
TEST_CASE("legacy flags: in safe a magic beyond 2^32 is none of an earlier one") {
  const auto body = [](World& world) {
    return world.all().launch("legacy", [](CoreContext& context) {
      const LegacySync::Flags flags = LegacySync::of(context.slots(), "legacy");
      LegacySync early(context, flags, Round{1});
      LegacySync late(context, flags, Round{(std::uint64_t{1} << 32) + 1});
      early.set_outer(1);
      CHECK_FALSE(late.check_outer(context.rank(), Core{0}, 1));
      CHECK_THROWS_WITH_AS(early.set_outer(0x1'0000), doctest::Contains("step 65536 of a flag; 65535 is the largest"),
                           ContractViolation);
      early.set_outer(0xFFFF);
      CHECK(early.check_outer(context.rank(), Core{0}, 0xFFFF));
    });
  };
  check_all_well(run_ranks(1, legacy_config(1, kSafe), body));
}

TEST_CASE("legacy flags: families lie behind each other, and a name is declared once") {
  shmem::SlotPlan plan(3, 2);
  const LegacySync::Flags flags = LegacySync::declare(plan, "detour", Offset{640}, 3, 2);
  CHECK(flags.inner.base == Offset{640});
  CHECK(flags.outer.base == Offset{640 + 2 * 32});
  CHECK(flags.sync.base == Offset{640 + 4 * 32});
  CHECK(flags.sync.count() == 3);
  CHECK(LegacySync::of(plan, "detour").outer.first == flags.outer.first);
  CHECK_THROWS_WITH_AS(LegacySync::declare(plan, "detour", Offset{4096}, 3, 2),
                       doctest::Contains("two slot families with the name detour"), ContractViolation);
}
