// What the strategies promise: the bounded ones every schedule within their bound, PCT its probability, a replay the
// same run, and the shrinker the smallest schedule.

#include <doctest/doctest.h>

#include "runtime/check/replay.hpp"
#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

/// Rows without a fence, then the signal.
Body rows_without_fence(std::uint64_t rows) {
  return one_launch([rows](CoreContext& c) {
    if (c.rank() == Rank{0}) {
      for (std::uint64_t n = 0; n < rows; ++n) put(c, 1, cell(n), 1);
      notify(c, 1, 1);
    } else {
      await(c, 0, 1);
      for (std::uint64_t n = 0; n < rows; ++n) {
        if (get(c, 1, cell(n)) != 1) throw std::runtime_error("stale");
      }
    }
  });
}

/// Rounds over slots that are used in turn; the reader never acknowledges.
Body slots_in_turn(std::uint64_t slots, std::uint64_t rounds) {
  return one_launch([=](CoreContext& c) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (c.rank() == Rank{0}) {
        put(c, 1, cell(round % slots), round);
        c.fence(Rank{1});
        notify(c, 1, round);
      } else {
        await(c, 0, round);
        if (get(c, 1, cell(round % slots)) != round) throw std::runtime_error("stale");
      }
    }
  });
}

Body lost_notify(bool ack_first) {
  return one_launch([ack_first](CoreContext& c) {
    const Slot pulse = c.slots().family("pulse").at(0, Rank{0});
    for (std::uint64_t round = 1; round <= 2; ++round) {
      if (c.rank() == Rank{0}) {
        c.signal(Rank{1}, pulse, SignalOp::set, 1);
        await(c, 1, round);
      } else {
        c.wait(pulse, Compare::equal, 1).ordering_only();
        if (ack_first) notify(c, 0, round);
        c.signal(Rank{1}, pulse, SignalOp::set, 0);
        if (!ack_first) notify(c, 0, round);
      }
    }
  });
}

/// Without the race detector: only schedules in which the fault shows count.
Shape effects(std::int32_t ranks = 2) {
  return {.ranks = ranks, .declare_slots = declare_pulse, .data_steps = true, .races = false};
}

/// Of `runs` schedules, those that fail.
int failing(const Shape& shape, const Body& body, std::string_view name, int runs) {
  World world(shape);
  const auto strategy = make_strategy(name, 1);
  int found = 0;
  for (int i = 0; i < runs; ++i) {
    (*strategy)->begin_run();
    const Run run = world.run(body, **strategy);
    found += run.verdict.clean() ? 0 : 1;
    if (run.outdated) (*strategy)->start_again();
    (void)(*strategy)->end_run(run.decisions);
  }
  return found;
}

struct Row {
  const char* name;
  Body body;
  int depth;  // of the fault: the smallest d for which pct-d is bound to find it; 0: there is none
};

}  // namespace

TEST_CASE("every strategy finds what there is to find, and nothing where there is nothing") {
  const Row rows[] = {
      {"put, notify without fence", rows_without_fence(1), 1},
      {"10 puts, no fence", rows_without_fence(10), 1},
      {"2 rounds, one slot", slots_in_turn(1, 2), 1},
      {"2 rounds, double buffer", slots_in_turn(2, 2), 0},
      {"3 rounds, double buffer", slots_in_turn(2, 3), 1},
      {"lost notify", lost_notify(true), 2},
      {"reset before ack", lost_notify(false), 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    for (const char* name : {"random", "pct1", "pct2", "pct3"}) {
      CAPTURE(name);
      const int found = failing(effects(), row.body, name, 4000);
      if (row.depth == 0) CHECK(found == 0);
      // The bound of PCT, 1 / (n k^(d-1)), with 6 actors and 30 decisions; half of it, for chance.
      else if (std::string_view(name) == "pct1" && row.depth == 1)
        CHECK(found >= 4000 / 6 / 2);
      else if (std::string_view(name) != "pct1")
        CHECK(found >= 4000 / 6 / 30 / 2);
    }
  }
}

TEST_CASE("a ring that waits first is stuck on every schedule, one that notifies first on none") {
  const auto ring = [](bool wait_first) {
    return one_launch([wait_first](CoreContext& c) {
      const std::int64_t me = c.rank().value();
      if (!wait_first) notify(c, (me + 1) % c.ranks(), 1);
      await(c, (me + c.ranks() - 1) % c.ranks(), 1);
      if (wait_first) notify(c, (me + 1) % c.ranks(), 1);
    });
  };
  for (const char* name : {"random", "pct1", "pct2", "pct3"}) {
    CAPTURE(name);
    CHECK(failing(effects(4), ring(true), name, 500) == 500);
    CHECK(failing(effects(4), ring(false), name, 500) == 0);
  }
}

TEST_CASE("bounded strategies: as many schedules as can be counted by hand") {
  // Two ranks that only start: who begins. Then each sends one put: who begins, and when it lands.
  const auto count = [](const Body& body, Bounded::Price price, std::uint32_t bound) {
    World world(effects());
    Explorer explorer(world, body);
    Bounded strategy(price, bound);
    const Outcome outcome = explorer.explore("bounded", strategy, {.runs = 100'000});
    CHECK(outcome.exhausted);
    return outcome.runs;
  };
  const Body nothing = one_launch([](CoreContext&) {});
  CHECK(count(nothing, Bounded::Price::delays, 0) == 1);
  CHECK(count(nothing, Bounded::Price::delays, 1) == 2);
  CHECK(count(nothing, Bounded::Price::preemptions, 0) == 1);  // rank 0 could begin
  const Body one_put = one_launch([](CoreContext& c) {
    if (c.rank() == Rank{0}) put(c, 1, cell(0), 1);
  });
  // start 0, start 1, land: 0 1 L, 0 L 1, 1 0 L
  CHECK(count(one_put, Bounded::Price::delays, 9) == 3);
  // Two puts: the orders of L L after 0, with 1 before, between, or after: (0 1 LL) (0 L 1 L) (0 LL 1) (1 0 LL), and
  // which of the two lands first.
  const Body two_puts = one_launch([](CoreContext& c) {
    if (c.rank() != Rank{0}) return;
    put(c, 1, cell(0), 1);
    put(c, 1, cell(1), 1);
  });
  CHECK(count(two_puts, Bounded::Price::delays, 9) == 8);
  CHECK(count(two_puts, Bounded::Price::delays, 0) == 1);
}

TEST_CASE("a run is its deviations: replayed here and in another world it is the same") {
  const Body body = lost_notify(true);
  World world(effects());
  Explorer explorer(world, body);
  RandomWalk random(3);
  const Outcome outcome = explorer.explore("random", random, {.runs = 10'000});
  REQUIRE(!outcome.failure.verdict.clean());
  const std::string text = to_text(Recording{"lost", "r2c1n2", outcome.failure.deviations});
  const Result<Recording> recording = parse_recording(text);
  REQUIRE(recording.has_value());
  CHECK(recording->deviations == outcome.failure.deviations);
  World elsewhere(effects());
  Explorer another(elsewhere, body);
  for (Explorer* who : {&explorer, &another}) {
    const Run run = who->replay(recording->deviations);
    CHECK(run.fingerprint == outcome.failure.fingerprint);
    CHECK(run.decisions == outcome.failure.decisions);
    CHECK(to_string(run.verdict) == to_string(outcome.failure.verdict));
  }
}

TEST_CASE("the shrinker keeps the verdict and leaves nothing that can be left out") {
  const auto shrunk = [](const Body& body) {
    World world(effects());
    Explorer explorer(world, body);
    RandomWalk random(5);
    const Outcome outcome = explorer.explore("random", random, {.runs = 10'000});
    REQUIRE(!outcome.failure.verdict.clean());
    const Run small = explorer.shrink(outcome.failure);
    CHECK(small.verdict.kind == outcome.failure.verdict.kind);
    CHECK(explorer.replay(small.deviations).fingerprint == small.fingerprint);
    // No schedule with fewer deviations fails: neither the default one, nor one without any of these.
    for (std::size_t i = 0; i < small.deviations.size(); ++i) {
      Deviations fewer = small.deviations;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(explorer.replay(fewer).verdict.kind != small.verdict.kind);
    }
    return small.deviations.size();
  };
  // The signal lands before the row, and the reader goes on before the row has landed.
  CHECK(shrunk(rows_without_fence(1)) <= 3);
  CHECK(shrunk(rows_without_fence(10)) <= 3);
}

TEST_CASE("recordings as text") {
  const Deviations far = {{0, 1}, {1, 15}, {2, 16}, {1000, 3}, {std::uint64_t{1} << 40, 0xFFFF'FFFFU}};
  for (const Deviations& deviations : {Deviations{}, Deviations{{7, 2}}, far}) {
    const Recording recording{"ep.dispatch", "r2c1n3-from4294967294", deviations};
    const std::string text = to_text(recording);
    CHECK(text.starts_with("shmoe1:ep.dispatch:r2c1n3-from4294967294:"));
    const Result<Recording> again = parse_recording(text);
    REQUIRE(again.has_value());
    CHECK(again->program == recording.program);
    CHECK(again->world == recording.world);
    CHECK(again->deviations == deviations);
  }
  CHECK(to_text(Recording{"p", "w", {{0, 1}, {17, 2}}}) == "shmoe1:p:w:abqbc");
  const auto why = [](std::string_view text) {
    const Result<Recording> recording = parse_recording(text);
    return recording ? std::string("taken") : recording.error().context;
  };
  CHECK(why("shmoe1:p:w:") == "taken");
  CHECK(why("shmoe1:p:w:ab") == "taken");
  for (const char* text : {"", "p:w:ab", "Shmoe1:p:w:ab"})
    CHECK(why(text).find("begin with shmoe1:") != std::string::npos);
  for (const char* text : {"shmoe2:p:w:ab", "shmoe"}) CHECK(why(text).find("another version") != std::string::npos);
  for (const char* text : {"shmoe1:", "shmoe1:p", "shmoe1:p:w"})
    CHECK(why(text).find("a part is missing") != std::string::npos);
  // Half a pair, option 0, digits that are none, a number without an end, an option beyond 32 bits, a decision beyond 64.
  for (const char* text :
       {"shmoe1:p:w:a", "shmoe1:p:w:aa", "shmoe1:p:w:a1", "shmoe1:p:w:AB", "shmoe1:p:w:qq", "shmoe1:p:w:aqqqqqqqqqqb",
        "shmoe1:p:w:777777777777777pb", "shmoe1:p:w:abqqqqqqqqqqqqqqqib777777777777777hb"}) {
    CAPTURE(text);
    CHECK(why(text).find("its choices do not parse") != std::string::npos);
  }
}

TEST_CASE("strategies by name") {
  for (const char* name : {"random", "pct1", "pct9", "delay0", "delay9", "preempt0", "preempt3"}) {
    CHECK(make_strategy(name, 1).has_value());
  }
  for (const char* name : {"", "pct", "pct0", "pct10", "delay", "delayx", "preempt-1", "Random", "portfolio"}) {
    CAPTURE(name);
    const auto strategy = make_strategy(name, 1);
    REQUIRE(!strategy.has_value());
    CHECK(strategy.error().code == Errc::invalid_argument);
  }
}
