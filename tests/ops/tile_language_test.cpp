// The words of the tile language, and what strict mode says to those that are used wrongly.

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ops/tile/memory.hpp"
#include "ops/tile/teams.hpp"
#include "ops/tile/tile.hpp"
#include "runtime/world.hpp"
#include "runtime/zero_buffer_sync.hpp"

using namespace shmoe;
using ops::tile::Cmp;
using ops::tile::consume_token;
using ops::tile::Signal;
using ops::tile::Signals;
using ops::tile::Symmetric;
using ops::tile::Tile;
using ops::tile::Translated;
using ops::tile::TranslatedSignal;
using ops::tile::Window;
using shmem::SignalOp;
using shmem::Writers;

namespace {

template <class P>
concept Translatable = requires(const Tile& tile, P p) {
  tile.symm_at(p, Rank{0});
};
template <class P>
concept Puttable = requires(Tile& tile, P p, std::span<const int> from) {
  tile.putmem(p, from, Rank{0});
};
template <class P>
concept Gettable = requires(Tile& tile, P p, std::span<int> to) {
  tile.getmem(to, p, Rank{0}, shmem::Witness::own());
};
template <class P>
concept Notifiable = requires(Tile& tile, P p) {
  tile.notify(p, Rank{0});
};
static_assert(Translatable<Symmetric<int>> && !Translatable<Translated<int>>);
static_assert(Translatable<Signal<std::int64_t>> && !Translatable<TranslatedSignal<std::int64_t>>);
static_assert(Puttable<Symmetric<int>> && !Puttable<Translated<int>>);
static_assert(Gettable<Symmetric<int>> && !Gettable<Translated<int>>);
static_assert(Notifiable<Signal<std::int32_t>> && !Notifiable<TranslatedSignal<std::int32_t>>);

constexpr std::int32_t kRanks = 3;

/// Slots of each kind.
void declare_words(shmem::SlotPlan& plan, const shmem::BlockMap& /*map*/) {
  plan.declare({.name = "word", .base = Offset{0}, .buffers = 4, .sources = kRanks});
  plan.declare({.name = "narrow", .base = Offset{1024}, .sources = kRanks, .width = 4});
  plan.declare({.name = "sum", .base = Offset{2048}, .writers = Writers::any_rank, .op = SignalOp::add});
  plan.declare({.name = "credit", .base = Offset{3072}, .sources = kRanks, .writers = Writers::source_and_owner});
  plan.declare({.name = "beyond", .base = Offset{4096}, .sources = kRanks + 1});
}

using TileKernel = std::function<void(runtime::CoreContext&, Tile&)>;

runtime::Config tile_config() {
  runtime::Config config = runtime::Config::defaults();
  config.cores = 1;
  config.heap = Bytes{2U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  config.wait_limit = std::chrono::seconds(60);
  config.declare_slots = declare_words;
  return config;
}

/// What each rank's kernel ends with, or nothing.
std::vector<std::string> run_tile(const TileKernel& kernel, bool strict = true, std::int32_t cores = 1) {
  runtime::Config config = tile_config();
  config.cores = cores;
  config.strict = strict;
  std::vector<std::string> ends(kRanks);
  const auto body = [&](runtime::World& world) -> Result<void> {
    const Result<void> done = world.all().launch("tile", [&](runtime::CoreContext& context) {
      Tile tile(context);
      kernel(context, tile);
    });
    if (!done) ends[world.rank().index()] = to_string(done.error());
    return done;
  };
  (void)runtime::World::run_as_threads(kRanks, config, body);
  return ends;
}

void check_runs(const TileKernel& kernel, bool strict = true) {
  for (const std::string& end : run_tile(kernel, strict)) CHECK(end == "");
}

/// Rank 0 breaks a contract, and its text has the part.
void check_refused(std::string_view part, const TileKernel& kernel, bool strict = true) {
  const std::string end = run_tile(
      [&](runtime::CoreContext& context, Tile& tile) {
        if (context.rank() == Rank{0}) kernel(context, tile);
      },
      strict)[0];
  CAPTURE(part);
  CAPTURE(end);
  CHECK(end.find(part) != std::string::npos);
}

Rank right_of(const Tile& tile) { return Rank{(tile.rank().value() + 1) % tile.num_ranks()}; }
Rank left_of(const Tile& tile) { return Rank{(tile.rank().value() + tile.num_ranks() - 1) % tile.num_ranks()}; }

constexpr Symmetric<std::int64_t> kData{Offset{8192}};

/// The value of an own place, behind a barrier.
std::int64_t own(Tile& tile, Symmetric<std::int64_t> place, const shmem::Witness& ordered) {
  std::int64_t value = 0;
  tile.getmem({&value, 1}, place, tile.rank(), ordered);
  return value;
}

void expect(bool holds, const char* what) { SHMOE_EXPECTS(holds, "{}", what); }

}  // namespace

TEST_CASE("tile: store, fence, notify; wait, consume_token, load") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signals<std::int64_t> words(context.slots().family("word"));
    const Signals<std::int32_t> narrow(context.slots().family("narrow"));
    const std::int64_t values[] = {tile.rank().value() + 10, tile.rank().value() + 20};
    tile.store(tile.symm_at(kData + 3, right_of(tile)), values);
    tile.fence();
    tile.notify(words.at(2, tile.rank(), 0), right_of(tile));
    tile.notify(narrow.at(0, tile.rank(), 0), right_of(tile), 7);
    std::int64_t seen[2] = {};
    tile.load(consume_token(tile.symm_at(kData + 3, tile.rank()), tile.wait(words.at(2, left_of(tile), 0), 1)), seen);
    expect(seen[0] == left_of(tile).value() + 10 && seen[1] == left_of(tile).value() + 20, "what the left one stored");
    // A remote slot may be waited for as well.
    tile.wait(tile.symm_at(narrow.at(0, tile.rank(), 0), right_of(tile)), 1, 7).ordering_only();
  });
}

TEST_CASE("tile: a wait is for equality, for each of several slots, and takes nothing away") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signals<std::int64_t> words(context.slots().family("word"));
    for (std::int32_t r = 0; r < tile.num_ranks(); ++r) tile.notify(words.at(1, tile.rank(), 0), Rank{r}, 5);
    const Signal<std::int64_t> first = words.at(1, Rank{0}, 0);
    tile.wait(first, kRanks, 5).ordering_only();
    tile.wait(first, kRanks, 5).ordering_only();
    tile.wait(first, kRanks, 3, Compare::at_least).ordering_only();
  });
}

TEST_CASE("tile: notify adds where the slot is one to add to") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signals<std::int64_t> sum(context.slots().family("sum"));
    for (std::int32_t r = 0; r < tile.num_ranks(); ++r) tile.notify(sum[0], Rank{r}, r + 1, SignalOp::add);
    tile.wait(sum[0], 1, kRanks * (tile.rank().value() + 1)).ordering_only();
  });
}

TEST_CASE("tile: putmem and getmem, with a signal or without") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signals<std::int64_t> words(context.slots().family("word"));
    const std::int64_t value = 100 + tile.rank().value();
    tile.putmem(kData, {&value, 1}, right_of(tile));
    tile.notify(words.at(0, tile.rank(), 0), right_of(tile));  // no fence
    tile.putmem_signal(kData + 1, {&value, 1}, words.at(1, tile.rank(), 0), 2, right_of(tile));
    tile.putmem_signal_nbi(kData + 2, {&value, 1}, words.at(2, tile.rank(), 0), 3, right_of(tile));
    for (const std::int64_t buffer : {0, 1, 2}) {
      const auto ordered = shmem::consume_token(tile.wait(words.at(buffer, left_of(tile), 0), 1, buffer + 1));
      expect(own(tile, kData + buffer, ordered) == 100 + left_of(tile).value(), "what the left one put");
    }
  });
}

TEST_CASE("tile: signal_wait_until knows six comparisons") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signal<std::int64_t> word = Signals<std::int64_t>(context.slots().family("word")).at(0, left_of(tile), 0);
    tile.signal_wait_until(Signals<std::int64_t>(context.slots().family("word")).at(3, left_of(tile), 0), Cmp::lt, 1)
        .ordering_only();
    tile.notify(Signals<std::int64_t>(context.slots().family("word")).at(0, tile.rank(), 0), right_of(tile), 5);
    tile.signal_wait_until(word, Cmp::ne, 0).ordering_only();
    tile.signal_wait_until(word, Cmp::eq, 5).ordering_only();
    tile.signal_wait_until(word, Cmp::gt, 4).ordering_only();
    tile.signal_wait_until(word, Cmp::ge, 5).ordering_only();
    tile.signal_wait_until(word, Cmp::lt, 6).ordering_only();
    tile.signal_wait_until(word, Cmp::le, 5).ordering_only();
  });
  check_refused("less than 0", [](runtime::CoreContext& context, Tile& tile) {
    tile.signal_wait_until(Signals<std::int64_t>(context.slots().family("word"))[0], Cmp::lt, 0).ordering_only();
  });
}

TEST_CASE("tile: waits for all, any and some leave out what the mask names; of none they say so") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signals<std::int64_t> words(context.slots().family("word"));
    const Signal<std::int64_t> first = words.at(0, Rank{0}, 0);
    const int not_the_own[] = {tile.rank() == Rank{0}, tile.rank() == Rank{1}, tile.rank() == Rank{2}};
    const int nobody[] = {1, 1, 1};
    tile.notify(words.at(0, tile.rank(), 0), right_of(tile));
    expect(tile.wait_until_any(first, kRanks, Cmp::eq, 1, not_the_own).index == left_of(tile).index(), "any");
    std::size_t indices[kRanks] = {9, 9, 9};
    expect(tile.wait_until_some(first, kRanks, indices, Cmp::eq, 1).count == 1, "some: one");
    expect(indices[0] == left_of(tile).index() && indices[1] == 9, "some: which one");
    runtime::ZeroBufferSync(context).barrier_all();  // everybody has looked at the one
    tile.notify(words.at(0, tile.rank(), 0), left_of(tile));
    tile.wait_until_all(first, kRanks, Cmp::eq, 1, not_the_own);
    expect(tile.wait_until_some(first, kRanks, indices, Cmp::eq, 1).count == 2, "some: two");
    tile.wait_until_all(first, kRanks, Cmp::eq, 77, nobody);
    expect(tile.wait_until_any(first, kRanks, Cmp::eq, 77, nobody).index == Tile::kNone, "any of none");
    expect(tile.wait_until_some(first, kRanks, indices, Cmp::eq, 77, nobody).count == 0, "some of none");
  });
}

TEST_CASE("tile: tests look once, with the conditions and masks of the waits") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    runtime::ZeroBufferSync sync(context);
    const Signals<std::int64_t> words(context.slots().family("word"));
    const Signal<std::int64_t> first = words.at(0, Rank{0}, 0);
    const Signal<std::int64_t> left = words.at(0, left_of(tile), 0);
    const int only_left[] = {left_of(tile) != Rank{0}, left_of(tile) != Rank{1}, left_of(tile) != Rank{2}};
    std::size_t indices[kRanks] = {9, 9, 9};
    expect(!tile.test(left, Cmp::eq, 5), "test: no");
    expect(!tile.test_all(first, kRanks, Cmp::ge, 5, only_left), "all: no");
    expect(tile.test_any(first, kRanks, Cmp::ge, 5).index == Tile::kNone, "any: no");
    expect(tile.test_some(first, kRanks, indices, Cmp::ge, 5).count == 0 && indices[0] == 9, "some: no");
    sync.barrier_all();
    tile.notify(words.at(0, tile.rank(), 0), right_of(tile), 5);
    sync.barrier_all();
    std::optional<shmem::Token> seen = tile.test(left, Cmp::eq, 5);
    expect(seen.has_value() && seen->arrival().value == 5, "test: yes");
    std::move(*seen).ordering_only();
    expect(!tile.test(left, Cmp::gt, 5) && !tile.test(left, Cmp::lt, 5) && !tile.test(left, Cmp::ne, 5),
           "test: beside");
    expect(tile.test_all(first, kRanks, Cmp::ge, 5, only_left).has_value(), "all: the left one");
    expect(!tile.test_all(first, kRanks, Cmp::ge, 5), "all: the others are 0");
    expect(tile.test_any(first, kRanks, Cmp::ge, 5).index == left_of(tile).index(), "any: yes");
    expect(tile.test_some(first, kRanks, indices, Cmp::ge, 5).count == 1, "some: one");
    expect(indices[0] == left_of(tile).index() && indices[1] == 9, "some: which one");
    expect(tile.test_some(first, kRanks, indices, Cmp::le, 0).count == 2, "some: the others");
    const int nobody[] = {1, 1, 1};
    expect(tile.test_all(first, kRanks, Cmp::eq, 77, nobody).has_value(), "all of none");
    expect(tile.test_any(first, kRanks, Cmp::eq, 0, nobody).index == Tile::kNone, "any of none");
  });
}

TEST_CASE("tile: a wait for all may have a value for each") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signals<std::int64_t> words(context.slots().family("word"));
    for (std::int32_t r = 0; r < tile.num_ranks(); ++r) {
      tile.notify(words.at(2, tile.rank(), 0), Rank{r}, 10 + tile.rank().value());
    }
    const std::int64_t values[] = {10, 11, 12};
    const std::int64_t wrong[] = {10, 77, 12};
    const int not_the_second[] = {0, 1, 0};
    tile.wait_until_all(words.at(2, Rank{0}, 0), Cmp::eq, values);
    tile.wait_until_all(words.at(2, Rank{0}, 0), Cmp::eq, wrong, not_the_second);
  });
  check_refused("a mask of 1 for 2 slots", [](runtime::CoreContext& context, Tile& tile) {
    const std::int64_t values[] = {0, 0};
    const int mask[] = {0};
    tile.wait_until_all(Signals<std::int64_t>(context.slots().family("word"))[0], Cmp::eq, values, mask);
  });
}

TEST_CASE("tile: an equal wait does not end on a value that is larger, a wait from there on does") {
  check_runs([](runtime::CoreContext& context, Tile& tile) {
    const Signals<std::int64_t> sum(context.slots().family("sum"));
    runtime::ZeroBufferSync sync(context);
    tile.notify(sum[0], right_of(tile), 3, SignalOp::add);
    sync.barrier_all();
    expect(!tile.test(sum[0], Cmp::eq, 2), "overshot");
    tile.wait(sum[0], 1, 2, Compare::at_least).ordering_only();
    tile.wait(sum[0], 1, 3).ordering_only();
  });
}

TEST_CASE("tile: calloc clears memory that was used before, align gives multiples") {
  const auto body = [](runtime::World& world) -> Result<void> {
    runtime::Communicator& all = world.all();
    const Result<Offset> used = all.allocate(Bytes{64});
    if (!used) return used.error();
    all.local<std::uint64_t>(*used, 8)[7] = 5;
    if (Result<void> freed = all.free(*used); !freed) return freed;
    const Result<Offset> zeroed = ops::tile::calloc(all, 8, Bytes{8});
    if (!zeroed) return zeroed.error();
    expect(*zeroed == *used && all.local<std::uint64_t>(*zeroed, 8)[7] == 0, "the same place, cleared");
    for (const std::uint64_t alignment : {1U, 16U, 64U, 128U, 4096U}) {
      const Result<ops::tile::AlignedBlock> aligned = ops::tile::align(all, Bytes{alignment}, Bytes{100});
      if (!aligned) return aligned.error();
      expect(aligned->at.value() % alignment == 0 && aligned->at >= aligned->block, "a multiple");
      const std::uint64_t end = aligned->block.value() + all.heap().size_of(aligned->block).value();
      expect(aligned->at.value() + 100 <= end, "within its block");
    }
    for (const std::uint64_t none : {0U, 3U, 96U}) {
      const auto refused = ops::tile::align(all, Bytes{none}, Bytes{100});
      expect(!refused && refused.error().code == Errc::invalid_argument, "no power of two");
    }
    expect(ops::tile::align(all, Bytes{64}, Bytes{0}).error().code == Errc::invalid_argument, "no bytes");
    const auto large = ops::tile::align(all, Bytes{1U << 31}, Bytes{~std::uint64_t{0} - 64});
    expect(!large && large.error().code == Errc::invalid_argument, "align past 2^64");
    const auto wraps = ops::tile::calloc(all, std::uint64_t{1} << 61, Bytes{16});
    expect(!wraps && wraps.error().code == Errc::invalid_argument, "calloc past 2^64");
    return {};
  };
  const Result<void> done = runtime::World::run_as_threads(kRanks, tile_config(), body);
  CHECK_MESSAGE(done, (done ? "" : to_string(done.error())));
}

TEST_CASE("tile: teams are every n-th rank, rows and columns; ranks translate from one to the other") {
  runtime::Config config = tile_config();
  config.communicators = 4;
  config.declare_slots = {};
  const auto body = [](runtime::World& world) -> Result<void> {
    runtime::Communicator& all = world.all();
    const std::vector<Rank> even = ops::tile::split_strided(all, Rank{0}, 2, 3);
    expect(even == std::vector{Rank{0}, Rank{2}, Rank{4}}, "every second");
    expect(ops::tile::split_strided(all, Rank{4}, -3, 2) == std::vector{Rank{4}, Rank{1}}, "downwards");
    const ops::tile::Split2d grid = ops::tile::split_2d(all, 3);  // 0 1 2 / 3 4
    const bool upper = all.rank().value() < 3;
    expect(grid.row == (upper ? std::vector{Rank{0}, Rank{1}, Rank{2}} : std::vector{Rank{3}, Rank{4}}), "rows");
    const std::int32_t column = all.rank().value() % 3;
    expect(grid.column == (column == 2 ? std::vector{Rank{2}} : std::vector{Rank{column}, Rank{column + 3}}),
           "columns");
    const auto row = world.communicator(runtime::CommunicatorId{upper ? 1 : 2}, grid.row);
    if (!row) return row.error();
    expect(ops::tile::translate_pe(all, Rank{4}, **row) == (upper ? std::nullopt : std::optional{Rank{1}}), "into");
    expect(ops::tile::translate_pe(**row, Rank{1}, all) == (upper ? Rank{1} : Rank{4}), "back");
    if (all.rank().value() % 2 != 0) return all.barrier();
    const auto evens = world.communicator(runtime::CommunicatorId{3}, even);
    if (!evens) return evens.error();
    expect((*evens)->rank() == Rank{all.rank().value() / 2}, "a team of a part");
    expect(ops::tile::split_strided(**evens, Rank{1}, 1, 2) == std::vector{Rank{2}, Rank{4}}, "of a team");
    return all.barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(5, config, body);
  CHECK_MESSAGE(done, (done ? "" : to_string(done.error())));
}

TEST_CASE("tile: strict mode refuses what a slot was not declared for") {
  check_refused("the slots of narrow are 4 bytes wide and are used as 8", [](runtime::CoreContext& context, Tile&) {
    (void)Signals<std::int64_t>(context.slots().family("narrow"));
  });
  check_refused("its words are 4 bytes wide", [](runtime::CoreContext& context, Tile&) {
    context.signal(Rank{1}, context.slots().family("narrow").at(0, Rank{0}), SignalOp::set, std::uint64_t{1} << 32);
  });
  check_refused("compares with 0x100000000: its words are 4 bytes wide", [](runtime::CoreContext& context, Tile&) {
    context.wait(context.slots().family("narrow").at(0, Rank{1}), Compare::equal, std::uint64_t{1} << 32)
        .ordering_only();
  });
  check_refused("is declared for set and is signalled with add", [](runtime::CoreContext& context, Tile& tile) {
    tile.notify(Signals<std::int64_t>(context.slots().family("word")).at(0, Rank{0}, 0), Rank{1}, 1, SignalOp::add);
  });
  check_refused("is declared for add and is signalled with set", [](runtime::CoreContext& context, Tile& tile) {
    tile.notify(Signals<std::int64_t>(context.slots().family("sum"))[0], Rank{1});
  });
  check_refused("rank 0 signals word[0] from rank 1 of rank 2", [](runtime::CoreContext& context, Tile& tile) {
    tile.notify(Signals<std::int64_t>(context.slots().family("word")).at(0, Rank{1}, 0), Rank{2});
  });
  check_refused(
      "for beyond from rank 3 of rank 0, which nobody may write: there are 3 ranks",
      [](runtime::CoreContext& context, Tile& tile) {
        tile.wait(Signals<std::int64_t>(context.slots().family("beyond")).at(0, Rank{3}, 0), 1).ordering_only();
      });
}

TEST_CASE("tile: strict mode refuses a second resetter and a buffer that nobody has given back") {
  check_refused("resets credit from rank 0 at", [](runtime::CoreContext& context, Tile& tile) {
    const Signal<std::int64_t> credit = Signals<std::int64_t>(context.slots().family("credit")).at(0, Rank{0}, 0);
    tile.notify(credit, Rank{0}, 1);
    tile.notify(credit, Rank{0}, 0);
    tile.notify(credit, Rank{0}, 0);
  });
  check_refused("which is still 0x1: wait until it is 0", [](runtime::CoreContext& context, Tile& tile) {
    const Signal<std::int64_t> credit = Signals<std::int64_t>(context.slots().family("credit")).at(0, Rank{0}, 0);
    tile.notify(credit, Rank{1}, 1);
    tile.notify(credit, Rank{1}, 1);
  });
  check_refused("only its owner back to 0", [](runtime::CoreContext& context, Tile& tile) {
    tile.notify(Signals<std::int64_t>(context.slots().family("credit")).at(0, Rank{0}, 0), Rank{1}, 0);
  });
}

TEST_CASE("window: an address is translated once; twice lies at rank 2p - me, which strict mode says") {
  for (std::int32_t me = 0; me < 5; ++me) {
    const Window loose(Rank{me}, 5, false);
    for (std::int32_t p = 0; p < 5; ++p) {
      const Offset there = loose.symm_at(Offset{4096}, Rank{p});
      CHECK(loose.resolve(there).owner == Rank{p});
      CHECK(loose.resolve(there).at == Offset{4096});
      const std::int32_t twice = 2 * p - me;
      if (twice >= 0 && twice < 5) {
        CHECK(loose.resolve(loose.symm_at(there, Rank{p})).owner == Rank{twice});
      } else {
        CHECK_THROWS_AS((void)loose.resolve(loose.symm_at(there, Rank{p})), ContractViolation);
      }
      const Window strict(Rank{me}, 5, true);
      CHECK(strict.resolve(strict.symm_at(Offset{4096}, Rank{p})).owner == Rank{p});
      if (p != me) CHECK_THROWS_AS((void)strict.symm_at(there, Rank{p}), ContractViolation);
    }
    CHECK(loose.symm_at(Offset{64}, Rank{me}) == Offset{64});
  }
}

TEST_CASE("window: putmem of a translated address goes to a third rank unless strict mode refuses it") {
  const auto put_twice = [](Tile& tile) {
    const std::int64_t value = 42;
    if (tile.rank() != Rank{0}) return;
    tile.putmem(tile.symm_at(Offset{8192}, Rank{1}), std::as_bytes(std::span{&value, 1}), Rank{1});
  };
  check_runs(
      [&](runtime::CoreContext& context, Tile& tile) {
        runtime::ZeroBufferSync sync(context);
        put_twice(tile);
        const shmem::Witness everyone = sync.barrier_all();
        expect(own(tile, kData, everyone) == (tile.rank() == Rank{2} ? 42 : 0), "it lies at rank 2 * 1 - 0");
      },
      false);
  check_refused("rank 0 translates 0x2000 at", [&](runtime::CoreContext&, Tile& tile) { put_twice(tile); });
  check_refused("an address that has been translated to rank 1 already: it would be one of rank 2",
                [&](runtime::CoreContext&, Tile& tile) { put_twice(tile); });
}
