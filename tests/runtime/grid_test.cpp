// The cores of a rank: launches of any size, SyncAll, exceptions.

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

std::unique_ptr<Grid> started(std::int32_t cores) {
  Result<std::unique_ptr<Grid>> grid = Grid::start(cores, shmem::Crowd{2});
  REQUIRE(grid.has_value());
  return *std::move(grid);
}

/// Whether a launch is refused.
bool refused(Communicator& comm, std::int32_t blocks) {
  try {
    (void)comm.launch("second", blocks, [](CoreContext& context) { ZeroBufferSync sync(context); });
    return false;
  } catch (const ContractViolation&) {
    return true;
  }
}

}  // namespace

TEST_CASE("a grid runs its body once on each core, on threads that stay") {
  for (const std::int32_t cores : {1, 2, 5, 48}) {
    const std::unique_ptr<Grid> owner = started(cores);
    Grid& grid = *owner;
    CHECK(grid.cores() == cores);
    std::vector<std::thread::id> ids(static_cast<std::size_t>(cores));
    grid.run([&](Core core) { ids[core.index()] = std::this_thread::get_id(); });
    CHECK(ids[0] == std::this_thread::get_id());
    std::vector<int> calls(static_cast<std::size_t>(cores));
    std::vector<int> moved(static_cast<std::size_t>(cores));
    for (int round = 0; round < 20; ++round) {
      grid.run([&](Core core) {
        ++calls[core.index()];
        moved[core.index()] += ids[core.index()] != std::this_thread::get_id();
      });
    }
    for (const int count : calls) CHECK(count == 20);
    for (const int count : moved) CHECK(count == 0);
  }
}

TEST_CASE("a grid that never ran ends") {
  for (int i = 0; i < 20; ++i) (void)started(4);
  CHECK_THROWS_WITH_AS((void)Grid::start(0, shmem::Crowd{2}), doctest::Contains("a grid of 0 cores"),
                       ContractViolation);
}

TEST_CASE("a launch within a launch breaks the contract") {
  for (const std::int32_t cores : {1, 3}) {
    const std::unique_ptr<Grid> owner = started(cores);
    Grid& grid = *owner;
    int refusals = 0;
    grid.run([&](Core core) {
      if (core != Core{0}) return;
      CHECK_THROWS_WITH_AS(grid.run([](Core) {}), doctest::Contains("a launch while another one is running on the "),
                           ContractViolation);
      CHECK_THROWS_WITH_AS((void)grid.claim(), doctest::Contains("a launch while another one is running on the "),
                           ContractViolation);
      ++refusals;
    });
    CHECK(refusals == 1);
    grid.run([&](Core) {});
  }
}

TEST_CASE("a claimed grid is refused to others until the claim goes") {
  const std::unique_ptr<Grid> grid = started(2);
  {
    const Grid::Claim claim = grid->claim();
    CHECK_THROWS_WITH_AS(grid->run([](Core) {}),
                         doctest::Contains("a launch while another one is running on the 2 cores of this rank"),
                         ContractViolation);
    std::atomic<int> calls = 0;
    claim.run([&](Core) { ++calls; });
    claim.run([&](Core) { ++calls; });
    CHECK(calls == 4);
  }
  grid->run([](Core) {});
}

TEST_CASE("a launch refused within a kernel, or from a second thread, leaves the rounds as they are") {
  for (const bool from_thread : {false, true}) {
    for (const auto& pair : {std::pair{1, 3}, std::pair{3, 1}, std::pair{2, 3}, std::pair{3, 3}}) {
      const int outer = pair.first;
      const int inner = pair.second;
      CAPTURE(from_thread);
      CAPTURE(outer);
      CAPTURE(inner);
      check_all_well(run_ranks(2, small_config(3), [&](World& world) -> Result<void> {
        Communicator& comm = world.all();
        for (int round = 0; round < 3; ++round) {
          const Result<void> first = comm.launch("first", outer, [&](CoreContext& context) {
            ZeroBufferSync sync(context);
            sync.barrier_all();
            if (context.core() == Core{0}) {
              bool was_refused = false;
              if (from_thread) {
                std::thread([&] { was_refused = refused(comm, inner); }).join();
              } else {
                was_refused = refused(comm, inner);
              }
              CHECK(was_refused);
            }
            sync.barrier_all();
          });
          if (!first) return first;
          if (Result<void> met = comm.barrier(); !met) return met;
        }
        return {};
      }));
    }
  }
}

TEST_CASE("two threads that launch at the same time: one or the other is refused, and the cores stay in step") {
  check_all_well(run_ranks(1, small_config(4), [&](World& world) -> Result<void> {
    Communicator& comm = world.all();
    std::atomic<int> ran = 0;
    const auto many = [&](std::int32_t blocks) {
      for (int i = 0; i < 300; ++i) ran += refused(comm, blocks) ? 0 : 1;
    };
    std::thread other([&] { many(4); });
    many(1);
    other.join();
    CHECK(ran > 0);
    std::vector<Round> rounds(4);
    const Result<void> launched = comm.launch("look", [&](CoreContext& context) {
      ZeroBufferSync sync(context);
      rounds[context.core().index()] = sync.round();
      sync.barrier_all();
    });
    for (const Round round : rounds) CHECK(round == Round{static_cast<std::uint64_t>(ran) + 1});  // the creation's too
    return launched;
  }));
}

TEST_CASE("SyncAll: nobody leaves before all have come") {
  for (const std::int32_t cores : {1, 2, 7, 48}) {
    check_all_well(run_ranks(1, small_config(cores), [&](World& world) -> Result<void> {
      std::vector<std::uint64_t> cells(static_cast<std::size_t>(cores));
      const std::uint64_t rounds = cores == 48 ? 5 : 50;
      return world.all().launch("sync", [&](CoreContext& context) {
        for (std::uint64_t round = 1; round <= rounds; ++round) {
          cells[context.core().index()] = round;
          context.sync_all();
          for (const std::uint64_t cell : cells) CHECK(cell == round);
          context.sync_all();
        }
      });
    }));
  }
}

TEST_CASE("a launch larger than the grid runs every block once, in batches") {
  for (const std::int32_t cores : {1, 3, 4}) {
    for (const std::int32_t blocks : {1, 2, 4, 10, 48}) {
      CAPTURE(cores);
      CAPTURE(blocks);
      check_all_well(run_ranks(2, small_config(cores), [&](World& world) -> Result<void> {
        std::vector<int> calls(static_cast<std::size_t>(blocks));
        std::vector<int> wrong(static_cast<std::size_t>(blocks));
        std::atomic<int> running = 0;
        std::atomic<int> items = 0;
        const Result<void> launched = world.all().launch("batch", blocks, [&](CoreContext& context) {
          const int now = ++running;
          ++calls[context.core().index()];
          wrong[context.core().index()] += now > cores || context.cores() != blocks;
          items += static_cast<int>(context.slice(1000).size());
          std::this_thread::yield();
          --running;
        });
        if (!launched) return launched;
        for (const int count : calls) CHECK(count == 1);
        for (const int count : wrong) CHECK(count == 0);
        CHECK(items == 1000);
        return world.all().barrier();
      }));
    }
  }
}

TEST_CASE("SyncAll in a launch larger than the grid breaks the contract, and the job ends with it everywhere") {
  for (const std::int32_t cores : {1, 2}) {
    const Outcomes outcomes = run_ranks(3, small_config(cores), [&](World& world) -> Result<void> {
      Communicator& comm = world.all();
      if (world.rank() != Rank{1}) return comm.barrier();
      return comm.launch("batch", cores + 1, [](CoreContext& context) { context.sync_all(); });
    });
    REQUIRE(outcomes[1]);
    CHECK(outcomes[1]->code == Errc::broken_contract);
    CHECK(contains(outcomes[1]->context, "batch: "));
    CHECK(contains(outcomes[1]->context, fmt::format("in a launch of {} cores on a grid of {}", cores + 1, cores)));
    for (const std::size_t rank : {0U, 2U}) {
      REQUIRE(outcomes[rank]);
      CHECK(outcomes[rank]->code == Errc::aborted);
      CHECK(contains(outcomes[rank]->context, "rank 1 gave up: broken contract: "));
    }
  }
}

TEST_CASE("a launch of no cores, or of more than the magic area holds, breaks the contract") {
  check_all_well(run_ranks(1, small_config(2), [&](World& world) -> Result<void> {
    CHECK_THROWS_WITH_AS((void)world.all().launch("none", 0, [](CoreContext&) {}),
                         doctest::Contains("a launch of 0 cores; 1 to 48 are possible"), ContractViolation);
    CHECK_THROWS_WITH_AS((void)world.all().launch("many", 49, [](CoreContext&) {}),
                         doctest::Contains("a launch of 49 cores; 1 to 48 are possible"), ContractViolation);
    return world.all().barrier();
  }));
}

TEST_CASE("cores that sit out a launch come back in step") {
  check_all_well(run_ranks(3, small_config(4), [&](World& world) -> Result<void> {
    for (const std::int32_t blocks : {4, 1, 1, 4, 2, 3, 1, 4}) {
      std::vector<Round> rounds(static_cast<std::size_t>(blocks));
      const Result<void> launched = world.all().launch("some", blocks, [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        rounds[context.core().index()] = sync.round();
        sync.barrier_all();
        sync.barrier_all();
        sync.set_all_rank_core_flag(1);
        for (Rank src{0}; src.value() < context.ranks(); ++src) {
          sync.wait_flag_range(src, 0, src == context.rank() ? 0U : static_cast<std::uint32_t>(blocks), 1);
        }
        sync.barrier_all();
      });
      if (!launched) return launched;
      for (const Round round : rounds) CHECK(round == rounds[0]);
    }
    return {};
  }));
}

namespace {

struct NoStdException {};

/// One core of one rank throws while all others wait in a barrier.
template <class Thrower>
void check_exception(std::int32_t ranks, std::int32_t cores, Rank where, Core core, const Thrower& thrower,
                     const std::string& text) {
  std::vector<std::optional<Error>> later(static_cast<std::size_t>(ranks));
  const Outcomes outcomes = run_ranks(ranks, small_config(cores), [&](World& world) -> Result<void> {
    Communicator& comm = world.all();
    const Result<void> result = comm.launch("thrower", [&](CoreContext& context) {
      ZeroBufferSync sync(context);
      if (context.rank() == where && context.core() == core) thrower();
      sync.barrier_all();
    });
    // For ever, and the same: the message of an aborted communicator does not change.
    const Result<void> again = comm.barrier();
    const Result<void> once_more = comm.launch("other", [](CoreContext&) {});
    CHECK(text_of(again ? std::nullopt : std::optional(again.error())) ==
          text_of(once_more ? std::nullopt : std::optional(once_more.error())));
    if (!again) later[world.rank().index()] = again.error();
    return result;
  });
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CAPTURE(rank);
    REQUIRE(outcomes[rank]);
    CHECK(outcomes[rank]->code == Errc::aborted);
    CHECK(contains(outcomes[rank]->context, text));
    if (Rank{rank} != where) CHECK(contains(outcomes[rank]->context, fmt::format("rank {} gave up: ", where)));
    REQUIRE(later[rank]);
    CHECK(later[rank]->code == Errc::aborted);
    CHECK(later[rank]->where == where);
    CHECK(contains(later[rank]->context, fmt::format("rank {} gave up: ", where)));
    CHECK(contains(later[rank]->context, text));
  }
}

}  // namespace

TEST_CASE("an exception in one core ends the kernel on all cores of all ranks") {
  const auto lost = [] { throw std::runtime_error("lost my way"); };
  check_exception(1, 1, Rank{0}, Core{0}, lost, "exception in a kernel: lost my way");
  check_exception(1, 3, Rank{0}, Core{2}, lost, "exception in a kernel: lost my way");
  check_exception(3, 1, Rank{2}, Core{0}, lost, "exception in a kernel: lost my way");
  check_exception(3, 3, Rank{1}, Core{1}, lost, "exception in a kernel: lost my way");
  check_exception(
      2, 2, Rank{1}, Core{1}, [] { throw NoStdException{}; }, "exception of an unknown type");
}

TEST_CASE("many fail at the same time: everybody ends, and what a rank says stays") {
  for (int round = 0; round < 5; ++round) {
    const Outcomes outcomes = run_ranks(3, small_config(4), [&](World& world) -> Result<void> {
      Communicator& comm = world.all();
      const Result<void> result = comm.launch("all throw", [&](CoreContext& context) {
        context.sync_all();
        throw std::runtime_error(fmt::format("core {} of rank {}", context.core(), context.rank()));
      });
      const Result<void> again = comm.barrier();
      const Result<void> later = comm.barrier();
      CHECK_FALSE(again.has_value());
      CHECK_FALSE(later.has_value());
      if (!again && !later) CHECK(to_string(again.error()) == to_string(later.error()));
      return result;
    });
    for (const auto& outcome : outcomes) {
      REQUIRE(outcome);
      CHECK(outcome->code == Errc::aborted);
    }
  }
}

TEST_CASE("an error without a code still ends everybody") {
  const Outcomes outcomes = run_ranks(2, small_config(1), [&](World& world) -> Result<void> {
    if (world.rank() == Rank{0}) {
      world.abort(Error{.code = Errc::ok, .context = "enough"});
      return world.all().barrier();
    }
    return world.all().barrier();
  });
  for (const auto& outcome : outcomes) {
    REQUIRE(outcome);
    CHECK(outcome->code == Errc::aborted);
    CHECK(contains(outcome->context, "rank 0 gave up: "));
    CHECK(contains(outcome->context, "enough"));
  }
}
