// Rules on launches and on where signals went, on jobs that stand still and are put together by hand: what each names,
// and what it does not take for it.

#include "runtime/diagnosis/root_cause.hpp"

#include <doctest/doctest.h>

#include "runtime/diagnosis/history.hpp"
#include "runtime/diagnosis/judge.hpp"
#include "runtime/diagnosis/verdict_json.hpp"
#include "tests/runtime/scene.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::published_word;

TEST_CASE("root cause: operators in another order, told by the first launch that differs") {
  Pair scene;
  const Slot flag = scene.slot("flag", 1);
  for (const int rank : {0, 1}) {
    scene.ran(rank, 0, "notify");
    scene.ran(rank, 0, rank == 0 ? "dispatch" : "combine");
    scene.enter(rank, 0, rank == 0 ? "combine" : "dispatch");
    scene.core(rank).launch = 7;  // of which the ring remembers three
  }
  scene.waits(scene.core(0), 0, flag, 1);
  REQUIRE(scene.names() == "operator order differs");
  CHECK(scene.causes()[0].because == "operator 6 of the communicator is dispatch on rank 0 and combine on rank 1");
}

TEST_CASE("root cause: a rank that is one launch behind has the same order") {
  Pair scene;
  scene.ran(0, 0, "notify");
  scene.enter(0, 0, "dispatch");
  scene.enter(1, 0, "notify");
  scene.core(0).launch = 2;
  scene.waits(scene.core(0), 0, scene.slot("flag", 1), 1);
  scene.waits(scene.core(1), 1, scene.slot("flag", 0), 1);
  CHECK(scene.names().find("operator order") == std::string::npos);
}

TEST_CASE("root cause: each event ring is read once, however many waits there are") {
  constexpr int kRanks = 8;
  Scene scene(kRanks, 2);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const int core : {0, 1}) {
      scene.waits(scene.core(rank, core), rank, scene.slot("barrier", (rank + 1) % kRanks), 1);
      scene.enter(rank, core, "step");
    }
  }
  CHECK(scene.names() == "missing notify");
  CHECK(scene.ring_reads == kRanks * 2);
}

TEST_CASE("root cause: ledger reads grow with the square of the ranks and not faster") {
  const auto reads = [](int ranks) {
    Scene scene(ranks, 1);
    for (int rank = 0; rank < ranks; ++rank) {
      const int next = (rank + 1) % ranks;
      scene.waits(scene.core(rank), rank, scene.slot("flag", next), 1);
      scene.ledger(next, (rank + ranks / 2) % ranks, scene.slot("flag", next), 1, 7);
    }
    CHECK(scene.names() == "wait before notify, missing notify");
    return scene.ledger_reads;
  };
  CHECK(reads(64) < 5 * reads(32));
  CHECK(reads(64) < 20 * 64 * 64);
}

TEST_CASE("root cause: cores of a launch in different rounds, with how many are where") {
  Pair scene(3);
  const Slot barrier = scene.slot("barrier", 1);
  for (const int core : {0, 1, 2}) {
    scene.waits(scene.core(0, core), 0, barrier, published_word(7, 1));
    scene.core(0, core).round = Round{core == 2 ? 5U : 6U};
    scene.core(0, core).launch = core == 2 ? 6 : 7;
    scene.magic(0, core, core == 2 ? 6 : 7);
    scene.magic(1, core, 7);
  }
  const std::vector<Cause> causes = scene.causes();
  REQUIRE(scene.names() == "core-count drift");
  CHECK(causes[0].because ==
        "on rank 0 core 0 is in round 6 and core 2 in round 5 of the same launch; they have begun 7 and 6 launches; "
        "magic slots: 2 cores at 7, 1 at 6");
  const std::string json = to_json({.kind = VerdictKind::deadlock_cycle, .text = {}, .stuck = {}, .causes = causes});
  std::string dense;
  for (const char c : json) {
    if (c != ' ' && c != '\n') dense += c;
  }
  CHECK(contains(dense, R"("histogram":[{"rank":0,"magic":6,"cores":1},{"rank":0,"magic":7,"cores":2},)"
                        R"({"rank":1,"magic":7,"cores":3}])"));
}

TEST_CASE("root cause: a rank runs the launch on fewer cores than the one that waits for them") {
  Pair scene(2);
  for (const int rank : {0, 1}) {
    scene.core(rank, 0).blocks = scene.core(rank, 1).blocks = rank == 0 ? 2 : 1;
    scene.magic(rank, 0, 3);
    scene.magic(rank, 1, rank == 0 ? 3 : 2);
  }
  scene.waits(scene.core(0, 1), 0, scene.slot("flag", 1, 1), 1);
  REQUIRE(scene.names() == "core-count drift");
  CHECK(scene.causes()[0].because ==
        "total cores of step: 1 on rank 1 and 2 on rank 0, which waits for event 1; magic slots: 1 core at 3, 1 at 2");
  // Of core 0, which both have, the count says nothing.
  scene.waits(scene.core(0, 1), 0, scene.slot("flag", 1, 0), 1);
  CHECK(scene.names() == "wait before notify, missing notify");
}

TEST_CASE("root cause: the round of a core went back, so another path writes its counter") {
  Pair scene(2);
  for (const int core : {0, 1}) {
    scene.enter(0, core, "dispatch");
    scene.takes(0, core, 4);
    scene.leave(0, core);
    scene.enter(0, core, "notify");
    scene.takes(0, core, core == 0 ? 0 : 5);
    scene.waits(scene.core(0, core), 0, scene.slot("barrier", 1), published_word(core == 0 ? 0 : 5, 1));
    scene.core(0, core).round = Round{core == 0 ? 0U : 5U};
    scene.core(0, core).launch = 2;
    scene.magic(0, core, core == 0 ? 1 : 6);
  }
  REQUIRE(scene.names() == "two paths on one region, core-count drift");
  CHECK(scene.causes()[0].because == "rank 0 core 0 was in round 4 in dispatch and was set back to round 0 in notify");
}

TEST_CASE("root cause: operators that count rounds of their own set nothing back, and are no highest round") {
  Pair scene(2);
  for (const int core : {0, 1}) {
    for (const auto& [op, round] : {std::pair{"notify", 4}, {"low latency", 1}, {"notify", core == 0 ? 0 : 5}}) {
      scene.enter(0, core, op);
      scene.takes(0, core, static_cast<std::uint64_t>(round));
      scene.leave(0, core);
    }
    scene.waits(scene.core(0, core), 0, scene.slot("barrier", 1), published_word(core == 0 ? 0 : 5, 1));
    scene.core(0, core).round = Round{core == 0 ? 0U : 5U};
    scene.core(0, core).launch = 3;
    scene.magic(0, core, core == 0 ? 1 : 6);
  }
  REQUIRE(scene.names() == "two paths on one region, core-count drift");
  CHECK(scene.causes()[0].because == "rank 0 core 0 was in round 4 in notify and was set back to round 0 in notify");
}

TEST_CASE("root cause: rounds that went back evenly, on all cores and ranks, are no drift") {
  Pair scene;
  for (const int rank : {0, 1}) {
    for (const std::uint64_t round : {4U, 0U}) {
      scene.enter(rank, 0, "step");
      scene.takes(rank, 0, round);
      scene.leave(rank, 0);
    }
    scene.waits(scene.core(rank), rank, scene.slot("barrier", 1 - rank), published_word(0, 1));
    scene.core(rank).launch = 2;
    scene.magic(rank, 0, 1);
  }
  CHECK(scene.names() == "missing notify");
}

TEST_CASE("root cause: another rank's round went back") {
  Pair scene;
  for (const int rank : {0, 1}) {
    scene.enter(rank, 0, "dispatch");
    scene.takes(rank, 0, 4);
    scene.leave(rank, 0);
    scene.enter(rank, 0, "step");
    scene.takes(rank, 0, rank == 0 ? 5 : 0);
    scene.waits(scene.core(rank), rank, scene.slot("barrier", 1 - rank), published_word(rank == 0 ? 5 : 0, 1));
    scene.core(rank).round = Round{rank == 0 ? 5U : 0U};
    scene.core(rank).launch = 2;
    scene.magic(rank, 0, rank == 0 ? 6 : 1);
  }
  CHECK(scene.names() == "two paths on one region, magic drift");
}

TEST_CASE("root cause: a signal to several ranks reaches those that follow, and not its sender") {
  const SentSignal signal{.writer = Rank{1}, .core = {}, .slot = {}, .first = Rank{0}, .destinations = 2};
  CHECK(signal.reaches(Rank{0}));
  CHECK_FALSE(signal.reaches(Rank{1}));
  CHECK(signal.reaches(Rank{2}));
  CHECK_FALSE(signal.reaches(Rank{3}));
  const SentSignal one{.writer = Rank{1}, .core = {}, .slot = {}, .first = Rank{1}};
  CHECK(one.reaches(Rank{1}));
  CHECK_FALSE(one.reaches(Rank{2}));
}

TEST_CASE("root cause: some events are signalled, and the awaited one never") {
  Pair scene;
  for (const std::uint32_t event : {0U, 1U}) {
    scene.ledger(1, 0, scene.slot("flag", 1, event), 1, 1);
    scene.word(0, scene.slot("flag", 1, event), 1);
  }
  scene.waits(scene.core(0), 0, scene.slot("flag", 1, 2), 1, Compare::at_least);
  REQUIRE(scene.names() == "notify range unlike wait range");
  CHECK(scene.causes()[0].because ==
        "rank 1 has signalled events 0 1 to rank 0 and never event 2, which rank 0 core 0 waits for");
}

TEST_CASE("root cause: other ranks have the signal") {
  Scene scene(3, 1);
  scene.ledger(1, 2, scene.slot("flag", 1), 1, 1);
  scene.ledger(0, 1, scene.slot("flag", 0), 1, 1);  // so that ranks signal several others
  scene.ledger(0, 2, scene.slot("flag", 0), 1, 1);
  scene.waits(scene.core(0), 0, scene.slot("flag", 1), 1, Compare::at_least);
  REQUIRE(scene.names() == "missing notify");
  CHECK(scene.causes()[0].because == "rank 1 sent 0x1 (magic 0, value 1) to rank 2 and not to rank 0");
}

TEST_CASE("root cause: a signal to oneself") {
  Pair scene;
  scene.ledger(1, 1, scene.slot("flag", 1), 1, 1);
  scene.waits(scene.core(0), 0, scene.slot("flag", 1), 1, Compare::at_least);
  REQUIRE(scene.names() == "notify to the wrong rank");
  CHECK(contains(scene.causes()[0].because, "the slot was signalled once there and 0 times here"));
}

TEST_CASE("root cause: what was due went to a slot that another rank signals, which only the events tell") {
  Scene scene(3, 1);
  const Slot due = scene.slot("flag", 1);
  for (const int rank : {0, 1, 2}) scene.enter(rank, 0, "step");
  scene.sets(1, 0, 2, scene.slot("flag", 2), 5);
  scene.sets(1, 0, 0, due, 5);
  scene.ledger(1, 0, due, 2, 5);
  scene.ledger(1, 2, due, 1, 4);
  scene.word(2, due, 4);
  scene.waits(scene.core(2), 2, due, 5);
  REQUIRE(scene.names() == "slot formula drift, missing notify");
  CHECK(scene.causes()[0].because ==
        "rank 1 core 0 sent 0x5 (magic 0, value 5) to flag[0] from rank 2 event 0 of rank 2, at a.cpp:0; rank 2 waits "
        "for it at flag[0] from rank 1 event 0");
  CHECK(name_of(judge(scene.sight()).kind) == "misdirected notify");
  // Of another launch it is another signal.
  scene.core(1).launch = 2;
  CHECK(scene.names() == "missing notify");
}

namespace {

/// Rank 0 waits for a sum of 5; ranks 1 and 2 have set 1 each.
struct Sum : Scene {
  Sum() : Scene(3, 1) {
    waits(core(0), 0, slot("flag", 1), 5, Compare::at_least);
    core(0).wait->slots = {slot("flag", 1), slot("flag", 2)};
    core(0).wait->match = shmem::Match::sum;
    core(0).wait->upper = 5;
    for (const int rank : {1, 2}) {
      sets(rank, 0, 0, slot("flag", rank), 1);
      ledger(rank, 0, slot("flag", rank), 1, 1);
      word(0, slot("flag", rank), 1);
    }
  }
};

}  // namespace

TEST_CASE("root cause: parts of a sum that have come in, and whose ranks wait for an answer") {
  Sum scene;
  for (const int rank : {1, 2}) scene.waits(scene.core(rank), rank, scene.slot("flag", 0), 1, Compare::at_least);
  REQUIRE(scene.names() == "missing notify, wait before notify");
  CHECK(
      scene.causes()[0].because ==
      "the ranks of the cycle have signalled each other in step before; rank 0 or 1 or 2 has left out its next signal");
  // What others got says nothing of how much is due here.
  scene.ledger(1, 2, scene.slot("flag", 1), 2, 2);
  scene.ledger(1, 0, scene.slot("flag", 1, 2), 2, 2);
  CHECK(scene.names() == "missing notify, wait before notify");
}

TEST_CASE("root cause: parts of a sum that have come in, and whose ranks have left") {
  Sum scene;
  for (const int rank : {1, 2}) scene.core(rank).busy = false;
  REQUIRE(scene.names(VerdictKind::orphan_wait) == "missing notify");
  CHECK(scene.causes(VerdictKind::orphan_wait)[0].because ==
        "rank 1 has left step, and flag[0] from rank 1 event 0 of rank 0 is no more than 0x1 (magic 0, value 1): the "
        "sum that rank 0 core 0 waits for lacks the rest");
}

TEST_CASE("root cause: a part of a sum that was there and is gone in part") {
  Sum scene;
  scene.ledger(1, 0, scene.slot("flag", 1), 1, 0x10001);
  REQUIRE(scene.names() == "host clear unaligned");
  CHECK(contains(scene.causes()[0].because,
                 "wrote 0x10001 (magic 0, value 65537) to flag[0] from rank 1 event 0 of rank "
                 "0 at an unknown place, and 0x1 (magic 0, value 1) lies there"));
}

TEST_CASE("root cause: a rank that waits for a signal of its own") {
  Pair scene;
  scene.waits(scene.core(0), 0, scene.slot("flag", 0), 1, Compare::at_least);
  REQUIRE(scene.names() == "wait before notify, missing notify");
  CHECK(scene.causes()[0].because ==
        "rank 0 core 0 waits in step for a signal of its own rank, before that rank sends it");
}

TEST_CASE("root cause: who should signal is a block that has not begun") {
  Pair scene(2);
  for (const int rank : {0, 1}) {
    for (const int core : {0, 1}) {
      scene.core(rank, core).block = static_cast<std::uint32_t>(core);
      scene.core(rank, core).blocks = 3;
    }
  }
  scene.waits(scene.core(0), 0, scene.slot("flag", 1), 1);
  REQUIRE(scene.names() == "oversized grid");
  CHECK(scene.causes()[0].because ==
        "rank 1 runs 3 blocks of step on 2 cores; block 2 cannot begin before block 0, which waits");
  scene.core(1, 0).block = 2;  // its first one has ended
  CHECK(scene.names().find("oversized") == std::string::npos);
}

TEST_CASE("root cause: a core that left before the SyncAll, and one that waits for another rank first") {
  Scene scene(1, 3);
  const Slot sync = scene.slot("sync_all", 0);
  scene.waits(scene.core(0, 0), 0, sync, 3);
  scene.waits(scene.core(0, 1), 0, sync, 3);
  scene.word(0, sync, 2);
  scene.core(0, 2).busy = false;
  const Verdict verdict = judge(scene.sight());
  CHECK(name_of(verdict.kind) == "SyncAll mismatch");
  REQUIRE(scene.names(VerdictKind::sync_mismatch) == "SyncAll left out by a core");
  CHECK(scene.causes(VerdictKind::sync_mismatch)[0].because ==
        "rank 0 core 0 waits in the SyncAll at here.cpp:1; core 2 has left");

  scene.waits(scene.core(0, 2), 0, sync, 3);
  scene.core(0, 2).busy = true;
  CHECK(scene.names(VerdictKind::sync_mismatch) == "missing notify");
}

namespace {

/// Rank 0 waits for the sum of two flags, its own and rank 1's.
struct SumReader : Consumer {
  SumReader() : own(slot("credit", 0)) {
    core(0).wait = WaitSight{.where = Rank{0}, .slots = {own, credit}, .match = shmem::Match::sum, .value = 2};
    core(0).wait->upper = 2;
    word(0, own, 1);
    ledger(0, 0, own, 1, 1);
    for (const int rank : {0, 1}) enter(rank, 0, "step");
  }
  /// The next launch of both ranks.
  void next_launch() {
    for (const int rank : {0, 1}) {
      leave(rank, 0);
      enter(rank, 0, "step");
      ++core(rank).launch;
    }
  }

  Slot own;
};

}  // namespace

TEST_CASE("root cause: a flag of a sum that is set again before its reader has cleared it") {
  SumReader scene;
  scene.fill();
  scene.fill();
  scene.give_back(0);
  scene.next_launch();
  scene.counts(2, 1);
  REQUIRE(scene.names() == "merged notifies");
  CHECK(scene.causes()[0].because ==
        "credit from rank 1 of rank 0 was filled 2 times and given back once, and is empty: rank 1 filled it while it "
        "was full");
}

TEST_CASE("root cause: a flag of a sum that is cleared in the launch in which it is awaited") {
  SumReader scene;
  scene.fill();
  scene.give_back(0);
  scene.counts(1, 1);
  REQUIRE(scene.names() == "flag cleared too early");
  CHECK(
      scene.causes()[0].because ==
      "rank 1 core 0 set credit from rank 1 of rank 0 to 0x1 at a.cpp:0, and rank 0 core 0 cleared it at a.cpp:0, and "
      "waits for it");
  // In the next launch it is no more than a flag that has not come.
  scene.next_launch();
  CHECK(scene.names().find("flag cleared too early") == std::string::npos);

  SumReader by_another;
  by_another.fill();
  by_another.sets(1, 0, 0, by_another.credit, 0);
  by_another.counts(1, 0);
  CHECK(by_another.names().find("flag cleared too early") == std::string::npos);

  Consumer one_word;  // no sum: a consumer that goes round clears what it has seen, and waits for more
  one_word.begin();
  one_word.fill();
  one_word.give_back(0);
  one_word.counts(1, 1);
  CHECK(one_word.names().find("flag cleared too early") == std::string::npos);
}

TEST_CASE("root cause: each core that may set the slot waits for it or has left") {
  Pair scene(3);
  for (const int core : {1, 2}) scene.waits(scene.core(0, core), 0, scene.slot("progress", 0), 1, Compare::at_least);
  scene.core(0, 0).busy = false;
  REQUIRE(scene.names() == "missing notify");
  CHECK(scene.causes()[0].because ==
        "only cores of rank 0 signal progress of rank 0, each of them waits for it or has left step, and it was "
        "signalled 0 times");
  // One that waits for something else may set it afterwards.
  scene.core(0, 0).busy = true;
  scene.waits(scene.core(0, 0), 0, scene.slot("flag", 1), 1);
  CHECK(scene.names() == "wait before notify, missing notify");
}

TEST_CASE("root cause: a slot in the memory of a third rank, beside one in the own memory") {
  Scene scene(3, 1);
  const Slot window = scene.slot("window", 0);
  scene.ledger(0, 1, window, 1, 1);
  scene.word(1, window, 1);
  scene.waits(scene.core(1), 2, window, 1, Compare::at_least);
  REQUIRE(scene.names() == "missing notify");
  CHECK(scene.causes()[0].because == "rank 0 sent 0x1 to rank 1 and not to rank 2");
  // At home it is the signal of somebody else.
  scene.core(1).wait.reset();
  scene.waits(scene.core(2), 2, window, 1, Compare::at_least);
  CHECK(scene.names() == "notify to the wrong rank, missing notify");
}
