// Every operation on flags, in every profile, with data behind each flag; and counters near their wraps.

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::Witness;

namespace {

struct FlagGrid {
  std::int32_t ranks;
  std::int32_t cores;
};
constexpr FlagGrid kFlagGrids[] = {{1, 1}, {1, 3}, {2, 1}, {2, 3}, {3, 2}, {5, 2}};

/// A table of one word per (rank, core) in every rank's memory; each core writes its cell of every table.
class Table {
 public:
  Table(Communicator& comm, Offset at) : ranks_(comm.ranks()), cores_(comm.cores()), at_(at) {}
  static Bytes bytes(Communicator& comm) { return Bytes{8 * static_cast<std::uint64_t>(comm.ranks() * comm.cores())}; }

  void write(CoreContext& context, std::uint64_t value) const {
    for (Rank dst{0}; dst.value() < ranks_; ++dst) {
      context.put(dst, cell(context.rank(), context.core().value()), std::span<const std::uint64_t>{&value, 1});
    }
  }
  [[nodiscard]] int wrong(CoreContext& context, Rank src, std::int64_t core, std::uint64_t value,
                          const Witness& seen) const {
    std::uint64_t found = 0;
    context.get(context.rank(), cell(src, core), std::span{&found, 1}, seen);
    return found == value ? 0 : 1;
  }
  [[nodiscard]] int wrong(CoreContext& context, std::uint64_t value, const Witness& seen) const {
    int count = 0;
    for (Rank src{0}; src.value() < ranks_; ++src) {
      for (std::int32_t core = 0; core < cores_; ++core) count += wrong(context, src, core, value, seen);
    }
    return count;
  }

 private:
  [[nodiscard]] Offset cell(Rank src, std::int64_t core) const {
    return at_ + Bytes{8 * (src.index() * static_cast<std::size_t>(cores_) + static_cast<std::size_t>(core))};
  }
  std::int32_t ranks_;
  std::int32_t cores_;
  Offset at_;
};

/// What one kernel does between the writes of the table and the last barrier; returns how many cells were wrong.
using Exchange = int (*)(CoreContext&, ZeroBufferSync&, const Table&, std::uint64_t value);

int one_by_one(CoreContext& context, ZeroBufferSync& sync, const Table& table, std::uint64_t value) {
  const auto event = static_cast<std::uint32_t>(context.core().value());
  for (Rank dst{0}; dst.value() < context.ranks(); ++dst) sync.set_flag(dst, event, 1);  // itself too
  int wrong = 0;
  for (Rank src{0}; src.value() < context.ranks(); ++src) {
    const Witness seen = consume_token(sync.wait_flag(src, event, 1));
    wrong += table.wrong(context, src, context.core().value(), value, seen);
    wrong += sync.check_flag(src, event, 1) ? 0 : 1;
    if (context.profile().compare == Compare::equal) wrong += sync.check_flag(src, event, 2) ? 1 : 0;
  }
  return wrong;
}

int in_batches(CoreContext& context, ZeroBufferSync& sync, const Table& table, std::uint64_t value) {
  const auto event = static_cast<std::uint32_t>(context.core().value());
  const Rank end{context.ranks()};
  sync.set_flag_batch(Rank{0}, end, event, 2);
  const Witness seen = sync.wait_flag_batch(Rank{0}, end, event, 2);
  int wrong = 0;
  for (Rank src{0}; src < end; ++src) wrong += table.wrong(context, src, context.core().value(), value, seen);
  return wrong;
}

int in_ranges(CoreContext& context, ZeroBufferSync& sync, const Table& table, std::uint64_t value) {
  sync.set_all_rank_core_flag(1);
  int wrong = 0;
  for (Rank src{0}; src.value() < context.ranks(); ++src) {
    if (src == context.rank()) continue;
    const Witness seen = sync.wait_flag_range(src, 0, static_cast<std::uint32_t>(context.cores()), 1);
    for (std::int32_t core = 0; core < context.cores(); ++core) wrong += table.wrong(context, src, core, value, seen);
  }
  return wrong;
}

int all_events(CoreContext& context, ZeroBufferSync& sync, const Table& table, std::uint64_t value) {
  sync.set_all_rank_core_flag(2);
  sync.wait_all_rank_all_event(2);
  return table.wrong(context, value, context.sync_all());  // a core knows about its own share only
}

/// Flags of this round, and those that the kernel before (all_events) left behind.
int with_magic(CoreContext& context, ZeroBufferSync& sync, const Table& table, std::uint64_t value) {
  const Round before{sync.round().value() - 1};
  const auto events = static_cast<std::uint32_t>(context.cores());
  sync.set_all_rank_core_flag(1);
  int wrong = 0;
  for (Rank src{0}; src.value() < context.ranks(); ++src) {
    if (src == context.rank()) continue;
    sync.wait_flag_range_with_magic(src, 0, events, before, 2);
    sync.wait_flag_with_magic(src, 0, before, 2).ordering_only();
    const Witness seen = sync.wait_flag_range_with_magic(src, 0, events, sync.round(), 1);
    for (std::int32_t core = 0; core < context.cores(); ++core) wrong += table.wrong(context, src, core, value, seen);
  }
  return wrong;
}

int barrier_only(CoreContext& context, ZeroBufferSync& sync, const Table& table, std::uint64_t value) {
  // Two barriers in one kernel are the published hole, so here the one at the end of the kernel has to do.
  if (context.profile() != kSafe) return 0;
  return table.wrong(context, value, sync.barrier_all());
}

constexpr Exchange kExchanges[] = {one_by_one, in_batches, in_ranges, all_events, with_magic, barrier_only};

/// All exchanges in turn, `rounds` times, without the host between them.
Result<void> exchange_rounds(Communicator& comm, int rounds) {
  const Result<Offset> at = comm.allocate(Table::bytes(comm));
  if (!at) return at.error();
  const Table table(comm, *at);
  std::uint64_t value = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const Exchange exchange : kExchanges) {
      ++value;
      std::vector<int> wrong(static_cast<std::size_t>(comm.cores()));
      const Result<void> launched = comm.launch("exchange", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        table.write(context, value);
        int& mine = wrong[context.core().index()];
        mine += exchange(context, sync, table, value);
        const Witness everyone = sync.barrier_all();
        if (exchange != all_events) mine += table.wrong(context, value, everyone);
      });
      if (!launched) return launched;
      // The next kernel overwrites the table, so everybody has to have read it. all_events has no second look: the
      // kernel right behind it waits for its flags.
      if (exchange != all_events) {
        if (Result<void> met = comm.barrier(); !met) return met;
      }
      for (std::size_t core = 0; core < wrong.size(); ++core) {
        CAPTURE(core);
        CHECK(wrong[core] == 0);
      }
    }
  }
  return {};
}

}  // namespace

TEST_CASE("every flag operation carries its data, first call after creation, second communicator too") {
  for (const Profile& profile : kProfiles) {
    for (const FlagGrid& shape : kFlagGrids) {
      const std::int32_t ranks = shape.ranks;
      const std::int32_t cores = shape.cores;
      CAPTURE(name_of(profile.id));
      CAPTURE(ranks);
      CAPTURE(cores);
      check_all_well(run_ranks(ranks, small_config(cores, profile), [&](World& world) -> Result<void> {
        if (Result<void> done = exchange_rounds(world.all(), 3); !done) return done;
        std::vector<Rank> reversed;
        for (std::int32_t rank = world.ranks(); rank-- > 0;) reversed.emplace_back(rank);
        Result<Communicator*> second = world.communicator(CommunicatorId{1}, reversed);
        if (!second) return second.error();
        return exchange_rounds(**second, 2);
      }));
    }
  }
}

TEST_CASE("counters pass 2^31, 2^32 and 2^40") {
  for (const Profile& profile : kProfiles) {
    for (const int bits : {31, 32, 40}) {
      CAPTURE(name_of(profile.id));
      CAPTURE(bits);
      HostBarrier ranks_meet(3);
      check_all_well(run_ranks(3, small_config(2, profile), [&](World& world) -> Result<void> {
        Communicator& comm = world.all();
        ranks_meet.arrive_and_wait();
        const std::uint64_t start = (std::uint64_t{1} << bits) - 3;
        set_rounds(comm, start);
        ranks_meet.arrive_and_wait();
        if (Result<void> done = exchange_rounds(comm, 1); !done) return done;
        // Each exchange is a kernel and, but for one, a barrier.
        for (Core core{0}; core.value() < comm.cores(); ++core) {
          const auto rounds = comm.local<std::uint64_t>(comm.map().magic_of(core), 1);
          CHECK(rounds[0] == start + 2 * std::size(kExchanges) - 1);
        }
        return {};
      }));
    }
  }
}

TEST_CASE("a flag is not there before it is set") {
  for (const Profile& profile : kProfiles) {
    HostBarrier ranks_meet(2);
    check_all_well(run_ranks(2, small_config(1, profile), [&](World& world) -> Result<void> {
      return world.all().launch("look", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        const Rank peer{1 - context.rank().value()};
        CHECK_FALSE(sync.check_flag(peer, 0, 1));
        ranks_meet.arrive_and_wait();
        sync.set_flag(peer, 0, 1);
        ranks_meet.arrive_and_wait();
        CHECK(sync.check_flag(peer, 0, 1));
        CHECK_FALSE(sync.check_flag(peer, 0, 2));
        CHECK_FALSE(sync.check_flag(context.rank(), 0, 1));
      });
    }));
  }
}

TEST_CASE("the phase of a flag in safe has 16 bits") {
  const Outcomes outcomes = run_ranks(1, small_config(1), [](World& world) {
    return world.all().launch("phase", [](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.set_flag(Rank{0}, 0, 0xFFFF);
      sync.wait_flag(Rank{0}, 0, 0xFFFF).ordering_only();
      sync.set_flag(Rank{0}, 0, 0x10000);
    });
  });
  REQUIRE(outcomes[0]);
  CHECK(outcomes[0]->code == Errc::broken_contract);
}
