// Every program once more in strong mode, under random schedules. Compiled with the thread sanitiser, which knows nothing
// of our clocks, this is a second opinion about what is ordered; it also sees memory that does not go through the Fabric.

#include <doctest/doctest.h>

#include "apps/check/programs.hpp"
#include "runtime/check/explore.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;

TEST_CASE("programs that are clean are clean in strong mode") {
  constexpr std::uint64_t kSeed = 20260101;
  int clean = 0;
  for (const Program& program : apps::all_programs()) {
    if (program.expected != VerdictKind::clean) continue;
    ++clean;
    for (Setting setting : {program.usual, Setting{.ranks = 2, .cores = 2}, Setting{.ranks = 3, .cores = 1}}) {
      setting.weak = false;
      World world(shape_of(program, setting));
      const Body body = program.make(setting);
      RandomWalk strategy(kSeed);
      const Outcome outcome = Explorer(world, body).explore("random", strategy, {.runs = 30});
      CAPTURE(program.name);
      CAPTURE(to_text(setting));
      CHECK(to_string(outcome.failure.verdict) == to_string(Verdict{}));
    }
  }
  CHECK(clean >= 40);
}
