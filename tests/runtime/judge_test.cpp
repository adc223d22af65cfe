// Verdicts on jobs that stand still and are put together by hand.

#include "runtime/diagnosis/judge.hpp"

#include <doctest/doctest.h>

#include "tests/runtime/scene.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmem::published_word;

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

TEST_CASE("judge: a core that waits for another rank comes to its SyncAll later") {
  Pair scene(2);
  scene.waits(scene.core(0, 0), 0, scene.slot("sync_all", 0), 2);
  scene.waits(scene.core(0, 1), 0, scene.slot("flag", 1), 1);
  scene.word(0, scene.slot("sync_all", 0), 1);
  CHECK(name_of(judge(scene.sight()).kind) == "deadlock cycle");
}

TEST_CASE("judge: whoever should signal has ended, or has gone on") {
  Pair scene;
  scene.waits(scene.core(0), 0, scene.slot("flag", 1), 1);
  CHECK(name_of(judge(scene.sight()).kind) == "deadlock cycle");
  scene.core(1).launch = 2;
  scene.core(1).op = "next";
  CHECK(name_of(judge(scene.sight()).kind) == "orphan wait");
  scene.core(1).launch = 1;
  scene.core(1).op = "step";
  scene.core(1).busy = false;
  const Verdict verdict = judge(scene.sight());
  CHECK(name_of(verdict.kind) == "orphan wait");
  CHECK(contains(verdict.text, "has ended without doing so"));
}
