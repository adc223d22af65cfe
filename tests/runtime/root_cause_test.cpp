// Each rule on a job that stands still, put together by hand: what it names, and what it does not take for it.

#include "runtime/root_cause.hpp"

#include <doctest/doctest.h>

#include "runtime/history.hpp"
#include "runtime/judge.hpp"
#include "runtime/verdict_json.hpp"
#include "shmem/signal.hpp"
#include "tests/runtime/scene.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::published_word;
using shmem::Side;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Two ranks; core 0 of rank 0 waits for rank 1's signal, and rank 1 waits for nothing that matters here.
struct Pair : Scene {
  explicit Pair(std::int32_t cores = 1) : Scene(2, cores) {}

  void ran(int rank, int core, const char* op) {
    enter(rank, core, op);
    leave(rank, core);
  }
};

/// Rank 1 fills credit slots of rank 0, whose core 0 waits for the next fill.
struct Consumer : Pair {
  explicit Consumer(std::int32_t cores = 1) : Pair(cores), credit(slot("credit", 1)) { waits(core(0), 0, credit, 1); }

  void counts(std::uint64_t filled, std::uint64_t reset) {
    ledger(1, 0, credit, filled, 1);
    ledger(0, 0, credit, reset, 0, Side::owner);
  }
  void begin() {
    for (const int rank : {0, 1}) {
      for (int core = 0; core < static_cast<int>(sight().cores_a_rank()); ++core) enter(rank, core, "step");
    }
  }
  void fill() { sets(1, 0, 0, credit, 1); }
  void give_back(int core) { sets(0, core, 0, credit, 0); }

  Slot credit;
};

}  // namespace

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
        "total cores: step runs on 1 on rank 1 and on 2 on rank 0, which waits for event 1; magic slots: 1 core at 3, "
        "1 at 2");
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

TEST_CASE("root cause: rounds that went back evenly, on all cores and ranks, are no drift") {
  Pair scene;
  for (const int rank : {0, 1}) {
    for (const std::uint64_t round : {4, 0}) {
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

TEST_CASE("root cause: the word of one operator is written over in another") {
  Pair scene;
  const Slot window = scene.slot("window", 1);
  scene.enter(1, 0, "dispatch");
  scene.sets(1, 0, 0, window, 5);
  scene.leave(1, 0);
  scene.enter(1, 0, "combine");
  scene.sets(1, 0, 0, window, 2);
  scene.core(0).op = "dispatch";
  scene.core(1).launch = 2;
  scene.ledger(1, 0, window, 2, 2);
  scene.word(0, window, 2);
  scene.waits(scene.core(0), 0, window, 5, Compare::at_least);
  REQUIRE(scene.names() == "shared flag window, missing notify");
  CHECK(scene.causes()[0].because ==
        "rank 1 core 0 wrote 0x5 to window from rank 1 of rank 0 in dispatch, and rank 1 core 0 wrote 0x2 over it in "
        "combine");
  // In one operator it is another fault.
  scene.core(0).op = "combine";
  scene.core(0).launch = 2;
  CHECK(scene.names().find("shared flag window") == std::string::npos);
}

TEST_CASE("root cause: what an operator wrote in an earlier launch is not for this wait") {
  Pair scene;
  const Slot window = scene.slot("window", 1);
  scene.enter(1, 0, "step");
  scene.sets(1, 0, 0, window, 1);
  scene.leave(1, 0);
  scene.enter(1, 0, "combine");
  scene.sets(1, 0, 0, window, 2);
  scene.leave(1, 0);
  scene.enter(1, 0, "step");
  scene.core(0).launch = scene.core(1).launch = 3;
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
  scene.enter(1, 0, "first");
  for (int i = 0; i < 3; ++i) scene.sets(1, 0, 0, count, 1);
  scene.leave(1, 0);
  scene.enter(1, 0, "step");
  scene.sets(1, 0, 0, count, 1);
  scene.core(0).launch = scene.core(1).launch = 2;
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
  scene.enter(1, 0, "first");
  scene.sets(1, 0, 0, count, 1);
  scene.leave(1, 0);
  scene.enter(1, 0, "step");
  for (int i = 0; i < 2; ++i) scene.sets(1, 0, 0, count, 1);
  scene.core(0).launch = scene.core(1).launch = 2;
  scene.word(0, count, 3);
  scene.waits(scene.core(0), 0, count, 2);
  CHECK(scene.names() == "doubled notify");
}

TEST_CASE("root cause: a slot that is full since the launch before") {
  Pair scene;
  const Slot credit = scene.slot("credit", 0);
  scene.enter(0, 0, "first");
  scene.sets(0, 0, 1, credit, 1);
  scene.leave(0, 0);
  scene.enter(0, 0, "step");
  scene.core(0).launch = scene.core(1).launch = 2;
  scene.ledger(0, 1, credit, 1, 1);
  scene.word(1, credit, 1);
  scene.waits(scene.core(0), 1, credit, 0);
  REQUIRE(scene.names() == "host clear missing, credit return missing");
  CHECK(scene.causes()[0].because ==
        "credit from rank 0 of rank 1 is full since first, launch 1, and was never given back; rank 0 core 0 waits to "
        "fill it in launch 2");
  // Where it has been given back once, giving back is how it is meant.
  scene.ledger(0, 1, credit, 2, 1);
  scene.ledger(1, 1, credit, 1, 0, Side::owner);
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
  CHECK(
      contains(scene.causes()[0].because, "of the slots of flag on rank 0 2 have been written, and 1 of those are 0"));
  scene.word(0, flag, 2);  // its upper bytes are gone
  CHECK(scene.names() == "host clear unaligned");
  scene.word(0, flag, 3);
  CHECK(scene.names() == "slot erased");
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
  CHECK(scene.names() == "wait before notify, missing notify");
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

TEST_CASE("judge: a slot that nobody has written is past nothing") {
  Pair scene;
  scene.waits(scene.core(0), 0, scene.slot("barrier", 1), published_word((std::uint64_t{1} << 30) - 1, 1));
  CHECK(name_of(judge(scene.sight()).kind) == "deadlock cycle");
}

TEST_CASE("judge: a word elsewhere that an at-most wait happens to name is no misdirected notify") {
  for (const Compare compare : {Compare::at_most, Compare::not_equal, Compare::at_least, Compare::equal}) {
    CAPTURE(sign_of(compare));
    Pair scene;
    scene.word(0, scene.slot("flag", 1, 0), compare == Compare::at_most ? 9 : 2);
    scene.word(0, scene.slot("flag", 1, 3), 3);
    scene.waits(scene.core(0), 0, scene.slot("flag", 1, 0), 3, compare);
    const bool for_a_word = compare == Compare::at_least || compare == Compare::equal;
    CHECK(name_of(judge(scene.sight()).kind) == (for_a_word ? "misdirected notify" : "deadlock cycle"));
  }
}
