// Each verdict provoked on purpose: its kind, the sites and the names in its text.

#include <doctest/doctest.h>

#include "runtime/zero_buffer_sync.hpp"
#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

/// "verdict_test.cpp:31"
std::string at(std::uint32_t line) { return fmt::format("verdict_test.cpp:{}", line); }

bool says(const Verdict& verdict, const std::string& part) {
  const std::string text = to_string(verdict);
  if (text.find(part) != std::string::npos) return true;
  MESSAGE("\"" << part << "\" is not in: " << text);
  return false;
}

SourceSite verdict_site(std::uint32_t line) { return {"verdict_test.cpp", line}; }

}  // namespace

TEST_CASE("a read that nothing orders after the write: landed or not") {
  const Body body = hand_over(false);
  World world(two_ranks());
  Explorer explorer(world, body);
  // All units in order: the put has landed when it is read.
  const Run landed = explorer.replay({});
  CHECK(landed.verdict.kind == VerdictKind::unordered_read);
  CHECK(says(landed.verdict, "rank 1 core 0 at support.hpp:"));
  CHECK(says(landed.verdict, "reads [0x0, +16) of rank 1, which rank 0 core 0 writes at support.hpp:"));
  CHECK(says(landed.verdict, "fence(1) or quiet between support.hpp:"));
  std::string stale;
  const Explored all = explore_all(
      world, body,
      [&](const Run& run) {
        if (run.verdict.kind == VerdictKind::stale_value) stale = run.verdict.text;
        return std::string(name_of(run.verdict.kind));
      },
      10'000);
  CHECK(all.exhausted);
  CHECK(fmt::format("{}", fmt::join(all.outcomes, ", ")) == "stale value, unordered read");
  CHECK(stale.find("; it had not landed, so the value is an old one: the signal sent at") != std::string::npos);
}

TEST_CASE("a read without a wait names the wait that is missing") {
  const Verdict verdict = verdict_of({}, [](CoreContext& c) {
    if (c.rank() == Rank{0})
      put(c, 1, cell(0), 1, verdict_site(11));
    else
      (void)get(c, 1, cell(0), verdict_site(12));
  });
  CHECK(verdict.kind == VerdictKind::stale_value);
  CHECK(says(verdict,
             "rank 1 core 0 at " + at(12) + " reads [0x0, +8) of rank 1, which rank 0 core 0 writes at " + at(11)));
  CHECK(
      says(verdict, "nothing that rank 1 core 0 waited for was sent after that: a wait for a signal of rank 0 core 0"));
}

TEST_CASE("a slot reused before it was read") {
  const Verdict verdict = verdict_of({}, [](CoreContext& c) {
    if (c.rank() == Rank{0}) {
      for (const std::uint64_t round : {1U, 2U}) {
        put(c, 1, cell(0), round, verdict_site(20));
        c.fence(Rank{1});
        notify(c, 1, round);
      }
    } else {
      await(c, 0, 1);
      (void)get(c, 1, cell(0), verdict_site(21));
    }
  });
  // By the schedule the second put comes before the read or after it; both are wrong.
  CHECK((verdict.kind == VerdictKind::unordered_read || verdict.kind == VerdictKind::overwrite_before_read));
  const Verdict late = verdict_of({}, [](CoreContext& c) {
    if (c.rank() == Rank{0}) {
      (void)get(c, 0, cell(0), verdict_site(22));
      notify(c, 1, 1);
      await(c, 1, 1);
    } else {
      notify(c, 0, 1);
      put(c, 0, cell(0), 1, verdict_site(23));
      await(c, 0, 1);
    }
  });
  CHECK(late.kind == VerdictKind::overwrite_before_read);
  CHECK(says(late,
             "rank 1 core 0 at " + at(23) + " overwrites [0x0, +8) of rank 0, which rank 0 core 0 reads at " + at(22)));
}

TEST_CASE("two writes of one place in no order") {
  const Verdict verdict = verdict_of({.ranks = 3}, [](CoreContext& c) {
    if (c.rank() != Rank{2}) put(c, 2, cell(0), 1, verdict_site(30 + static_cast<std::uint32_t>(c.rank().value())));
  });
  CHECK(verdict.kind == VerdictKind::unordered_write);
  CHECK(says(verdict,
             "rank 1 core 0 at " + at(31) + " writes [0x0, +8) of rank 2, which rank 0 core 0 writes at " + at(30)));
}

TEST_CASE("bad addresses: never allocated, beyond the block, after the free, landing after the free") {
  const auto on_heap = [](std::function<void(Communicator&, Offset)> act) {
    return verdict_of({}, [act = std::move(act)](Communicator& comm) -> Result<void> {
      const Result<Offset> block = comm.allocate(Bytes{128});
      if (!block) return block.error();
      act(comm, *block);
      return {};
    });
  };
  const auto put_at = [](Bytes beyond) {
    return [beyond](Communicator& comm, Offset block) {
      (void)comm.launch("put", [&](CoreContext& c) {
        if (c.rank() == Rank{0}) put(c, 1, block + beyond, 1, verdict_site(40));
      });
    };
  };
  // Rank 1 must have allocated before rank 0 writes; the barrier sees to it.
  const auto after_barrier = [&](Bytes beyond) {
    return on_heap([&, beyond](Communicator& comm, Offset block) {
      (void)comm.barrier();
      put_at(beyond)(comm, block);
    });
  };
  CHECK(after_barrier(Bytes{0}).clean());
  CHECK(after_barrier(Bytes{120}).clean());
  const Verdict beyond = after_barrier(Bytes{124});
  CHECK(beyond.kind == VerdictKind::bad_address);
  CHECK(says(beyond, "rank 0 uses [0x"));
  CHECK(says(beyond, "+8) of rank 1 at " + at(40)));
  const Verdict early = on_heap(put_at(Bytes{0}));
  CHECK(early.kind == VerdictKind::bad_address);
  const Verdict freed = on_heap([&](Communicator& comm, Offset block) {
    (void)comm.free(block);
    (void)comm.barrier();
    put_at(Bytes{0})(comm, block);
  });
  CHECK(freed.kind == VerdictKind::bad_address);
  CHECK(says(freed, "freed, or past the end of its block"));
  const Verdict landing = on_heap([&](Communicator& comm, Offset block) {
    (void)comm.barrier();
    put_at(Bytes{0})(comm, block);
    (void)comm.free(block);
  });
  CHECK(landing.kind == VerdictKind::bad_address);
}

TEST_CASE("bad addresses: what a block has left behind, and beyond its new end") {
  const auto put_after = [](Bytes from_old_place) {
    return verdict_of({}, [=](Communicator& comm) -> Result<void> {
      const Result<Offset> hole = comm.allocate(Bytes{64});
      const Result<Offset> block = comm.allocate(Bytes{128}, shmem::Mobility::movable);
      if (!hole || !block) return comm.barrier();
      if (Result<void> freed = comm.free(*hole); !freed) return freed;
      if (const auto moves = comm.compact(); !moves) return moves.error();  // down by 64 bytes
      return comm.launch("put", [&](CoreContext& c) {
        if (c.rank() == Rank{0}) put(c, 1, *block + from_old_place, 1, verdict_site(41));
      });
    });
  };
  CHECK(put_after(Bytes{0}).clean());
  CHECK(put_after(Bytes{56}).clean());
  for (const std::uint64_t from_old_place : {60U, 64U, 120U}) {
    CAPTURE(from_old_place);
    const Verdict verdict = put_after(Bytes{from_old_place});
    CHECK(verdict.kind == VerdictKind::bad_address);
    CHECK(says(verdict, "+8) of rank 1 at " + at(41)));
  }
}

TEST_CASE("what lies outside the block is a broken contract, as are a wrong writer and a wrong operation") {
  const auto broken = [](const StoredKernel& kernel, const std::string& part) {
    const Verdict verdict = verdict_of({}, kernel);
    CHECK(verdict.kind == VerdictKind::broken_contract);
    CHECK(says(verdict, part));
  };
  broken([](CoreContext& c) { put(c, 1, Offset{0} + c.map().size, 1, verdict_site(50)); },
         at(50) + " lie outside its block");
  broken([](CoreContext& c) { c.signal(Rank{0}, flag(c, 1), SignalOp::set, 1, verdict_site(51)); },
         "rank 0 signals flag[0] from rank 1 of rank 0 at " + at(51) + " and is no declared writer of it");
  broken([](CoreContext& c) { c.signal(Rank{0}, flag(c, c.rank().value()), SignalOp::add, 1, verdict_site(52)); },
         "is declared for set and is signalled with add at " + at(52));
  broken([](CoreContext& c) { put(c, 2, cell(0), 1, verdict_site(53)); }, "rank 2 of 2, used at " + at(53));
}

TEST_CASE("a rank that returns an error has failed, and its text is the verdict") {
  const Verdict verdict = verdict_of({}, [](Communicator& comm) -> Result<void> {
    if (comm.rank() == Rank{1}) return Error{.code = Errc::capacity_exceeded, .context = "no room for row 7"};
    return comm.launch("wait", [](CoreContext& c) { await(c, 1, 1); });
  });
  CHECK(verdict.kind == VerdictKind::failed);
  CHECK(verdict.text == "capacity exceeded: no room for row 7");
  const Verdict thrown = verdict_of({}, [](CoreContext& c) {
    if (c.rank() == Rank{0}) throw std::runtime_error("out of ideas");
  });
  CHECK(thrown.kind == VerdictKind::failed);
  CHECK(says(thrown, "out of ideas"));
}

TEST_CASE("a body that remembers an earlier run is not deterministic") {
  int calls = 0;
  World world({});
  const Body body = one_launch([&calls](CoreContext& c) {
    if (c.rank() == Rank{0}) {
      // One signal more with every run.
      for (int i = 0; i <= calls; ++i) notify(c, 1, 1);
      ++calls;
    } else {
      await(c, 0, 1);
    }
  });
  Explorer explorer(world, body);
  RandomWalk random(1);
  const Outcome outcome = explorer.explore("random", random, {.runs = 2});
  CHECK(outcome.failure.verdict.kind == VerdictKind::nondeterminism);
}

TEST_CASE("a loop of tests that nobody satisfies ends at the step limit") {
  const Verdict verdict = verdict_of({.most_steps = 1000}, [](CoreContext& c) {
    const Slot slot = flag(c, 1 - c.rank().value());
    while (!holds(c.test({.where = c.rank(), .slots = {&slot, 1}, .value = 1}))) continue;
  });
  CHECK(verdict.kind == VerdictKind::no_verdict);
  CHECK(verdict.text == "not over after 1000 steps");
}

TEST_CASE("a deadline passes only when nothing else can happen") {
  using namespace std::chrono_literals;
  std::vector<std::int64_t> times;
  // Rank 0 has long to wait, and is told; rank 1 waits for what never comes, first for short and then for longer.
  const auto run = [&times](bool told) {
    return verdict_of({}, [&times, told](CoreContext& c) {
      const auto wait = [&c](shmem::Time until) {
        const Slot slot = flag(c, 1 - c.rank().value());
        return c.fabric().wait({.where = c.rank(), .slots = {&slot, 1}, .value = 1, .deadline = until},
                               verdict_site(60));
      };
      if (c.rank() == Rank{1}) {
        for (const shmem::Time until : {2s, 5s}) {
          const auto result = wait(until);
          if (result || result.error().code != Errc::deadline) throw std::logic_error("no deadline");
          times.push_back(c.fabric().now().count());
        }
        if (told) notify(c, 0, 1);
      } else {
        const auto result = wait(6s);
        if (result.has_value() != told) throw std::logic_error("told");
        times.push_back(c.fabric().now().count());
      }
    });
  };
  const auto seconds = [](std::int64_t n) { return n * 1'000'000'000; };
  CHECK(run(true).clean());
  CHECK(std::set<std::int64_t>(times.begin(), times.end()) == std::set{seconds(2), seconds(5)});
  times.clear();
  CHECK(run(false).clean());
  CHECK(std::set<std::int64_t>(times.begin(), times.end()) == std::set{seconds(2), seconds(5), seconds(6)});
}
