// Waits that never end: which of them is the cause, and how the verdict names it.

#include <doctest/doctest.h>

#include "runtime/zero_buffer_sync.hpp"
#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

SourceSite site(std::uint32_t line) { return {"stuck_test.cpp", line}; }

}  // namespace

TEST_CASE("a ring in which everybody waits first is a cycle of as many waits as ranks") {
  for (const std::int32_t ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    World world({.ranks = ranks});
    const Body body = one_launch(
        [](CoreContext& c) {
          const std::int64_t me = c.rank().value();
          await(c, (me + c.ranks() - 1) % c.ranks(), 1, 0, site(10));
          notify(c, (me + 1) % c.ranks(), 1);
        },
        "ring");
    const Verdict verdict = explore(world, body).failure.verdict;
    CHECK(verdict.kind == VerdictKind::deadlock_cycle);
    CHECK(verdict.text == "every core waits for a signal that only a waiting core could send");
    REQUIRE(verdict.stuck.size() == static_cast<std::size_t>(ranks));
    const StuckWait& wait = verdict.stuck[1];
    CHECK(wait.rank == Rank{1});
    CHECK(wait.core == Core{0});
    CHECK(wait.op == "ring");
    CHECK(wait.what == "flag[0] from rank 0 of rank 1 to be >= 0x1, sees 0x0");
    CHECK(wait.site == "stuck_test.cpp:10");
    CHECK(wait.writers == std::vector{Rank{0}});
    CHECK(to_string(verdict).find(
              "\n  rank 1 core 0 in ring round 0 waits at stuck_test.cpp:10 for flag[0] from rank 0 of rank "
              "1 to be >= 0x1, sees 0x0; may be written by rank 0") != std::string::npos);
  }
}

TEST_CASE("a wait for a rank that has ended is an orphan, and comes before those that wait for it") {
  const Verdict verdict = verdict_of({.ranks = 3}, [](CoreContext& c) {
    if (c.rank() == Rank{0}) await(c, 1, 1);
    if (c.rank() == Rank{1}) await(c, 2, 1);
  });
  CHECK(verdict.kind == VerdictKind::orphan_wait);
  CHECK(verdict.text ==
        "rank 1 core 0 waits for flag[0] from rank 2 of rank 1, and every rank that may write it has ended without "
        "doing so");
  REQUIRE(verdict.stuck.size() == 2);
  CHECK(verdict.stuck[0].rank == Rank{1});
  CHECK(verdict.stuck[1].rank == Rank{0});
}

TEST_CASE("a core that skips a SyncAll is named a mismatch") {
  const Verdict verdict = verdict_of({.ranks = 1, .cores = 2}, [](CoreContext& c) {
    if (c.core() == Core{0}) c.sync_all();
  });
  CHECK(verdict.kind == VerdictKind::sync_mismatch);
  CHECK(verdict.text ==
        "rank 0 core 0 waits in a SyncAll of test that not every core of its rank has come to: 1 arrivals of 2. Every "
        "core "
        "of a launch must call SyncAll equally often");
}

TEST_CASE("cores in a SyncAll behind a core that waits for another rank are no mismatch") {
  const Verdict verdict = verdict_of({.ranks = 2, .cores = 2}, [](CoreContext& c) {
    if (c.core() == Core{1}) await(c, 1 - c.rank().value(), 1);
    c.sync_all();
  });
  CHECK(verdict.kind == VerdictKind::deadlock_cycle);
  CHECK(verdict.stuck.size() == 4);
}

TEST_CASE("a word that went past an equality wait is an overrun") {
  const Verdict verdict = verdict_of({}, [](CoreContext& c) {
    if (c.rank() == Rank{0}) {
      notify(c, 1, 1);
      notify(c, 1, 2);
    } else {
      c.wait(flag(c, 0), Compare::equal, 1, site(20)).ordering_only();
    }
  });
  CHECK(verdict.kind == VerdictKind::overrun);
  CHECK(verdict.text.starts_with(
      "rank 1 core 0 looks for 0x1 in flag[0] from rank 0 of rank 1 and the word is already 0x2"));
  REQUIRE(verdict.stuck.size() == 1);
  CHECK(verdict.stuck[0].what == "flag[0] from rank 0 of rank 1 to be == 0x1, sees 0x2");
}

TEST_CASE("a word in a slot that nobody waits for was misdirected") {
  const auto run = [](std::int64_t to, std::uint64_t buffer) {
    return verdict_of({.ranks = 3}, [=](CoreContext& c) {
      if (c.rank() == Rank{0}) notify(c, to, 5, buffer);
      if (c.rank() == Rank{1}) await(c, 0, 5);
    });
  };
  CHECK(run(1, 0).clean());
  const Verdict rank = run(2, 0);
  CHECK(rank.kind == VerdictKind::misdirected);
  CHECK(rank.text ==
        "rank 1 core 0 waits for 0x5 in flag[0] from rank 0 of rank 1; exactly this word lies in flag[0] from rank 0 "
        "of rank "
        "2, where nobody ever waits: the signal went to another rank, buffer or index");
  const Verdict buffer = run(1, 1);
  CHECK(buffer.kind == VerdictKind::misdirected);
  CHECK(buffer.text.find("lies in flag[1] from rank 0 of rank 1") != std::string::npos);
}

TEST_CASE("a sum that is never reached names all its slots") {
  const Verdict verdict = verdict_of({.ranks = 3}, [](CoreContext& c) {
    if (c.rank() != Rank{0}) {
      notify(c, 0, 2);
    } else {
      const Slot slots[] = {flag(c, 1), flag(c, 2)};
      c.wait({.where = Rank{0}, .slots = slots, .match = shmem::Match::sum, .value = 5, .upper = 9}).ordering_only();
    }
  });
  CHECK(verdict.kind == VerdictKind::orphan_wait);
  REQUIRE(verdict.stuck.size() == 1);
  CHECK(verdict.stuck[0].what ==
        "the sum of 2 slots from flag[0] from rank 1 of rank 0 on to lie in [0x5, 0x9], sees 0x4");
}

TEST_CASE("the published double barrier overruns in the checker") {
  for (const Profile& profile : kProfiles) {
    CAPTURE(name_of(profile.id));
    World world({.profile = profile});
    const Body body = one_launch(
        [](CoreContext& context) {
          ZeroBufferSync sync(context);
          sync.barrier_all();
          sync.barrier_all();
        },
        "dispatch");
    Explorer explorer(world, body);
    const Outcome outcome = explorer.portfolio(7, {.runs = 4000});
    const bool fails = profile.id == ProfileId::faithful_2026_07;
    CHECK(outcome.failure.verdict.kind == (fails ? VerdictKind::overrun : VerdictKind::clean));
  }
}
