// Rules on the words of slots and on credits, on jobs that stand still and are put together by hand.

#include "runtime/diagnosis/root_cause.hpp"

#include <doctest/doctest.h>

#include "runtime/diagnosis/judge.hpp"
#include "tests/runtime/scene.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::published_word;

TEST_CASE("root cause: the word of one operator is written over in another") {
  Pair scene;
  const Slot window = scene.slot("window", 1);
  scene.launched(1, "dispatch", 0, window, {5});
  scene.enter(1, 0, "combine");
  scene.sets(1, 0, 0, window, 2);
  scene.core(0).op = "dispatch";
  scene.core(0).launch = 6;
  scene.core(1).launch = 7;  // of which the ring remembers two
  scene.ledger(1, 0, window, 2, 2);
  scene.word(0, window, 2);
  scene.waits(scene.core(0), 0, window, 5, Compare::at_least);
  REQUIRE(scene.names() == "shared flag window, missing notify");
  CHECK(scene.causes()[0].because ==
        "rank 1 core 0 wrote 0x5 to window from rank 1 of rank 0 in dispatch, and rank 1 core 0 wrote 0x2 over it in "
        "combine");
  // In one operator it is another fault.
  scene.core(0).op = "combine";
  scene.core(0).launch = 7;
  CHECK(scene.names().find("shared flag window") == std::string::npos);
}

TEST_CASE("root cause: what an operator wrote in an earlier launch is not for this wait") {
  Pair scene;
  const Slot window = scene.slot("window", 1);
  scene.launched(1, "step", 0, window, {1});
  scene.launched(1, "combine", 0, window, {2});
  scene.enter(1, 0, "step");
  scene.launch(3);
  scene.ledger(1, 0, window, 2, 2);
  scene.word(0, window, 2);
  scene.waits(scene.core(0), 0, window, 1);
  CHECK(scene.names(VerdictKind::overrun) == "buffer reused too early");
}

TEST_CASE("root cause: a rank clears a credit in one operator that was set in the next") {
  Consumer scene;
  scene.counts(2, 1);
  scene.enter(1, 0, "dispatch");
  scene.fill();
  scene.leave(1, 0);
  scene.enter(1, 0, "combine");
  scene.fill();
  scene.enter(0, 0, "dispatch");
  scene.give_back(0);
  scene.leave(0, 0);
  scene.enter(0, 0, "combine");
  for (const int rank : {0, 1}) {
    scene.core(rank).op = "combine";
    scene.core(rank).launch = 2;
  }
  REQUIRE(scene.names() == "shared flag window, merged notifies");
  CHECK(scene.causes()[0].because ==
        "rank 1 core 0 wrote 0x1 to credit from rank 1 of rank 0 in combine, and rank 0 core 0 wrote 0x0 over it in "
        "dispatch");
}

TEST_CASE("root cause: a count that the launch before has left") {
  Pair scene;
  const Slot count = scene.slot("count", 1);
  scene.launched(1, "first", 0, count, {1, 1, 1});
  scene.enter(1, 0, "step");
  scene.sets(1, 0, 0, count, 1);
  scene.launch(2);
  scene.ledger(1, 0, count, 4, 1);
  scene.word(0, count, 4);
  scene.waits(scene.core(0), 0, count, 3);
  REQUIRE(scene.names(VerdictKind::overrun) == "host clear missing, doubled notify");
  CHECK(scene.causes()[0].because ==
        "count from rank 1 of rank 0 holds 4, of which 3 was counted before step began; the wait looks for 3");
}

TEST_CASE("root cause: a count that goes on from launch to launch, and one signal too many") {
  Pair scene;
  const Slot count = scene.slot("count", 1);
  scene.launched(1, "first", 0, count, {1});
  scene.enter(1, 0, "step");
  for (int i = 0; i < 2; ++i) scene.sets(1, 0, 0, count, 1);
  scene.launch(2);
  scene.word(0, count, 3);
  scene.waits(scene.core(0), 0, count, 2);
  CHECK(scene.names() == "doubled notify");
}

TEST_CASE("root cause: a slot that is full since the launch before") {
  Pair scene;
  const Slot credit = scene.slot("credit", 0);
  scene.launched(0, "first", 1, credit, {1});
  scene.enter(0, 0, "step");
  scene.launch(2);
  scene.ledger(0, 1, credit, 1, 1);
  scene.word(1, credit, 1);
  scene.waits(scene.core(0), 1, credit, 0);
  REQUIRE(scene.names() == "host clear missing, credit return missing");
  CHECK(scene.causes()[0].because ==
        "credit from rank 0 of rank 1 is full since first, launch 1, and was never given back; rank 0 core 0 waits to "
        "fill it in launch 2");
  // In the launch in which it was filled.
  scene.core(0).launch = 1;
  CHECK(scene.names() == "credit return missing");
  // Where it has been given back once, giving back is how it is meant.
  scene.core(0).launch = 2;
  scene.ledger(0, 1, credit, 2, 1);
  scene.ledger(1, 1, credit, 1, 0, shmem::Side::owner);
  CHECK(scene.names() == "credit return missing");
}

TEST_CASE("root cause: words that a host has cleared, whole and in part, and one that nobody knows") {
  Pair scene;
  const Slot flag = scene.slot("flag", 1);
  scene.ledger(1, 0, flag, 1, 0x10002);
  scene.ledger(1, 0, scene.slot("flag", 1, 2), 1, 0x10002);
  scene.word(0, scene.slot("flag", 1, 2), 0x10002);
  scene.waits(scene.core(0), 0, flag, 0x10002, Compare::at_least);
  REQUIRE(scene.names() == "host clear unaligned");
  CHECK(contains(scene.causes()[0].because, "; 1 of 2 written slots of flag on rank 0 hold 0"));
  scene.word(0, flag, 2);  // its upper bytes are gone
  REQUIRE(scene.names() == "host clear unaligned");
  CHECK(contains(scene.causes()[0].because, "0x2 (magic 0, value 2) lies there; some of its bytes are 0"));
  scene.word(0, flag, 3);
  CHECK(scene.names() == "slot erased");
}

namespace {

/// Cores 0 and 1 of rank 1 set events 0 and 1 of rank 0, which lie in one line, one after the other; event 0 is gone.
struct Line : Pair {
  Line() : Pair(2) {
    for (const int core : {0, 1}) enter(1, core, "step");
    writes(0, 0, 0);
    writes(1, 1, 1);
    waits(core(0), 0, slot("flag", 1, 0), 1);
  }

  void writes(int by, std::uint32_t event, std::uint64_t now) {
    const Slot at = slot("flag", 1, event);
    sets(1, by, 0, at, 1);
    ledger(1, 0, at, 1, 1, shmem::Side::source, by);
    word(0, at, now);
  }
};

}  // namespace

TEST_CASE("root cause: a word is gone, and another core has set its neighbour in the line since") {
  Line scene;
  REQUIRE(scene.names() == "slots share a line, host clear unaligned");
  CHECK(scene.causes()[0].because ==
        "rank 1 core 0 wrote 0x1 (magic 0, value 1) to flag[0] from rank 1 event 0 of rank 0 at an unknown place, and "
        "0x0 "
        "(magic 0, value 0) lies there; core 1 has set flag[0] from rank 1 event 1 since, at an unknown place, in the "
        "same line of 64 bytes");
}

TEST_CASE("root cause: a word of another line is gone as well, which no neighbour explains") {
  Line scene;
  scene.writes(0, 2, 0);
  REQUIRE(scene.names() == "host clear unaligned");
  CHECK(contains(scene.causes()[0].because, "; 2 of 3 written slots of flag on rank 0 hold 0"));
  scene.writes(1, 3, 1);  // its own neighbour does
  CHECK(scene.names() == "slots share a line, host clear unaligned");
}

TEST_CASE("root cause: a word that another rank wrote over is not the host's doing") {
  Pair scene;
  const Slot flag = scene.slot("flag", 1);
  scene.enter(0, 0, "step");
  scene.sets(0, 0, 0, flag, 0);
  scene.ledger(1, 0, flag, 1, 1);
  scene.waits(scene.core(0), 0, flag, 1);
  REQUIRE(scene.names() == "slot erased");
  CHECK(contains(scene.causes()[0].because, ": rank 0 core 0 wrote it in step"));
}

TEST_CASE("root cause: a second core's reset took the fill away that the first one waits for") {
  Consumer scene(2);
  scene.counts(2, 2);
  scene.begin();
  scene.fill();
  scene.give_back(0);
  scene.fill();
  scene.give_back(1);
  scene.sets(1, 0, 1, scene.credit, 1);  // the slot of this number on another rank
  REQUIRE(scene.names() == "double reset");
  CHECK(scene.causes()[0].because ==
        "credit from rank 1 of rank 0 was filled 2 times and given back 2 times, the last time by rank 0 core 1, while "
        "rank 0 core 0 waits for a signal");
}

TEST_CASE("root cause: one core alone gives back, and the next fill does not come") {
  Consumer scene(2);
  scene.counts(1, 1);
  scene.begin();
  scene.fill();
  scene.give_back(0);
  REQUIRE(scene.names() == "missing notify, wait before notify");
  CHECK(contains(scene.causes()[0].because, "have signalled each other in step before; rank 1 has left out its next"));
}

TEST_CASE("root cause: another core has given back in an earlier launch") {
  Consumer scene(2);
  scene.counts(1, 1);
  scene.begin();
  scene.fill();
  scene.give_back(1);
  for (const int rank : {0, 1}) {
    for (const int core : {0, 1}) {
      scene.leave(rank, core);
      scene.enter(rank, core, "step");
      scene.core(rank, core).launch = 2;
    }
  }
  CHECK(scene.names() == "wait before notify, missing notify");
}

TEST_CASE("root cause: two fills in a row, and another core than the waiting one gave back") {
  Consumer scene(2);
  scene.counts(2, 1);
  scene.begin();
  scene.fill();
  scene.fill();
  scene.give_back(1);
  CHECK(scene.names() == "merged notifies");
}

TEST_CASE("root cause: more resets than fills; two fills in a row; a fill that no signal took away") {
  Consumer twice;
  twice.counts(1, 2);
  CHECK(twice.names() == "double reset");

  Consumer merged;
  merged.counts(2, 1);
  merged.begin();
  merged.fill();
  merged.fill();
  merged.give_back(0);
  CHECK(merged.names() == "merged notifies");

  Consumer cleared;
  cleared.counts(2, 1);
  cleared.begin();
  cleared.fill();
  cleared.give_back(0);
  cleared.fill();
  REQUIRE(cleared.names() == "host clear unaligned");
  CHECK(cleared.causes()[0].because ==
        "credit from rank 1 of rank 0 was filled 2 times and given back once, and is empty: no signal took away what "
        "rank 1 wrote last");

  Consumer unknown;  // the events are gone
  unknown.counts(1, 0);
  CHECK(unknown.names() == "host clear unaligned");
  unknown.counts(2, 1);
  CHECK(unknown.names() == "merged notifies");
}

TEST_CASE("root cause: a third rank's reset of a credit counts as one") {
  Scene scene(3, 1);
  const Slot credit = scene.slot("credit", 1);
  for (const int rank : {0, 1, 2}) scene.enter(rank, 0, "step");
  scene.sets(1, 0, 0, credit, 1);
  scene.sets(2, 0, 0, credit, 0);
  scene.ledger(1, 0, credit, 1, 1);
  scene.waits(scene.core(0), 0, credit, 1);
  CHECK(scene.names() == "double reset, merged notifies");
}

TEST_CASE("root cause: a round that has wrapped is past the one before it") {
  Pair scene;
  const std::uint64_t last = (std::uint64_t{1} << 30) - 1;
  const Slot of_1 = scene.slot("barrier", 1, 0, 1);
  const Slot of_0 = scene.slot("barrier", 0, 0, 1);
  scene.waits(scene.core(0), 0, of_1, published_word(last, 1));
  scene.word(0, of_1, published_word(1, 1));
  scene.waits(scene.core(1), 1, of_0, published_word(1, 1));
  scene.word(1, of_0, published_word(last, 1));
  scene.ledger(1, 0, of_1, 2, published_word(1, 1));
  scene.ledger(0, 1, of_0, 1, published_word(last, 1));
  const Verdict verdict = judge(scene.sight());
  CHECK(name_of(verdict.kind) == "overrun");
  CHECK(verdict.stuck[0].rank == Rank{0});
  CHECK(scene.names(VerdictKind::overrun) == "buffer reused too early");
}

TEST_CASE("root cause: the second barrier of a kernel overtakes the first, or a barrier of the next kernel does") {
  for (const std::uint64_t magic : {1U, 3U}) {
    Pair scene;
    const Slot barrier = scene.slot("barrier", 1, 0, 1);
    scene.waits(scene.core(0), 0, barrier, published_word(1, 1));
    scene.word(0, barrier, published_word(magic, 2));
    scene.ledger(1, 0, barrier, 2, published_word(magic, 2));
    scene.ledger(0, 1, scene.slot("barrier", 0, 0, 1), 1, published_word(1, 1));
    REQUIRE(scene.names(VerdictKind::overrun) ==
            (magic == 1 ? "two barriers in one epoch" : "buffer reused too early"));
    CHECK(contains(scene.causes()[0].because, "signalled it 2 times, and rank 0 answered once"));
  }
}

TEST_CASE("root cause: ranks have signalled each other equally often, and are at different words") {
  Pair scene;
  const Slot flag = scene.slot("flag", 1);
  scene.waits(scene.core(0), 0, flag, published_word(3, 1));
  scene.word(0, flag, published_word(3, 2));
  scene.ledger(1, 0, flag, 2, published_word(3, 2));
  scene.ledger(0, 1, scene.slot("flag", 0), 2, published_word(3, 1));
  REQUIRE(scene.names(VerdictKind::overrun) == "magic drift");
  CHECK(scene.causes()[0].because ==
        "ranks 1 and 0 have signalled each other 2 times, yet one is at 0x300000002 (magic 3, value 2) and the other "
        "at 0x300000001 (magic 3, value 1)");
}

TEST_CASE("root cause: a wait for any step of one call, and the word of a later call lies there") {
  Pair scene;
  const Slot window = scene.slot("window", 1);
  const auto writes = [&](std::uint64_t count, std::uint64_t word) {
    scene.ledger(1, 0, window, count, word);
    scene.word(0, window, word);
  };
  scene.waits(scene.core(0), 0, window, published_word(2, 1), Compare::at_least);
  scene.core(0).wait->match = shmem::Match::sum;
  scene.core(0).wait->upper = published_word(2, 0xFFFF'FFFF);
  writes(3, published_word(4, 1));
  const Verdict verdict = judge(scene.sight());
  CHECK(name_of(verdict.kind) == "overrun");
  CHECK(verdict.stuck[0].what == "window from rank 1 of rank 0 to lie in [0x200000001, 0x2ffffffff], sees 0x400000001");
  REQUIRE(scene.names(VerdictKind::overrun) == "buffer reused too early");
  CHECK(scene.causes(VerdictKind::overrun)[0].because ==
        "rank 1 wrote 0x400000001 over 0x200000001 in window from rank 1 of rank 0 before rank 0 core 0 had seen it: "
        "rank 1 signalled it 3 times, and rank 0 answered 0 times");
  // The word of an earlier call is none that has gone by.
  writes(1, published_word(0, 1));
  CHECK(name_of(judge(scene.sight()).kind) == "deadlock cycle");
}
