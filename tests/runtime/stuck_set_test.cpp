// The greatest set of stuck ranks against its definition: the union of all sets that hold together, found by trying all.

#include "runtime/diagnosis/stuck_set.hpp"

#include <random>

#include <doctest/doctest.h>

#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using shmem::Match;

namespace {

/// Slot s of rank d is written by rank s, slot R of it by its own cores, slot R + 1 by anybody.
shmem::SlotPlan plan_of(std::int32_t ranks) {
  shmem::SlotPlan plan(ranks);
  plan.declare({.name = "flag", .base = Offset{0}, .sources = static_cast<std::uint32_t>(ranks)});
  plan.declare({.name = "own", .base = Offset{4096}, .writers = shmem::Writers::own_cores, .op = shmem::SignalOp::add});
  plan.declare({.name = "any", .base = Offset{8192}, .writers = shmem::Writers::any_rank});
  return plan;
}

CoreSight waiting(int rank, int where, std::vector<int> slots, Match match = Match::all) {
  WaitSight wait{
      .where = Rank{where}, .slots = {}, .match = match, .compare = Compare::at_least, .value = 1, .upper = 9};
  for (const int slot : slots) wait.slots.emplace_back(slot);
  return {.rank = Rank{rank}, .busy = true, .wait = std::move(wait)};
}
CoreSight running(int rank) { return {.rank = Rank{rank}, .busy = true, .wait = {}}; }
CoreSight idle(int rank) { return {.rank = Rank{rank}, .wait = {}}; }

Sight sight_of(const shmem::SlotPlan& plan, std::vector<CoreSight> cores) {
  return {.slots = &plan,
          .ranks = plan.ranks(),
          .cores = std::move(cores),
          .word = [](Rank, Slot) { return std::uint64_t{0}; },
          .looked_at = [](Rank, Slot) { return true; }};
}

using Set = std::vector<bool>;

Set stuck_in(const Sight& sight, const Set& ended) { return stuck_set({&sight, 1}, ended); }

/// Whether a set is one whose ranks only wait for each other or for ended ones.
bool holds_together(const Sight& sight, const Set& ended, const Set& set) {
  for (Rank rank{0}; rank.value() < sight.ranks; ++rank) {
    if (!set[rank.index()]) continue;
    bool waits = false;
    for (const CoreSight& core : sight.of(rank)) {
      if (!core.busy) continue;
      if (!core.wait || core.wait->may_give_up || core.wait->slots.empty()) return false;
      waits = true;
      for (Rank writer{0}; writer.value() < sight.ranks; ++writer) {
        if (set[writer.index()] || ended[writer.index()]) continue;
        for (const Slot slot : core.wait->slots) {
          if (sight.slots->may_write(slot, core.wait->where, writer)) return false;
        }
      }
    }
    if (!waits || ended[rank.index()]) return false;
  }
  return true;
}

Set by_trying_all(const Sight& sight, const Set& ended) {
  const auto ranks = static_cast<std::size_t>(sight.ranks);
  Set all(ranks);
  for (std::size_t bits = 1; bits < std::size_t{1} << ranks; ++bits) {
    Set set(ranks);
    for (std::size_t r = 0; r < ranks; ++r) set[r] = (bits >> r & 1) != 0;
    if (!holds_together(sight, ended, set)) continue;
    for (std::size_t r = 0; r < ranks; ++r) all[r] = all[r] || set[r];
  }
  return all;
}

}  // namespace

TEST_CASE("stuck set: a ring of waits is stuck, whoever waits for it too, and one that runs frees all") {
  const shmem::SlotPlan plan = plan_of(4);
  const std::vector<CoreSight> ring{waiting(0, 0, {1}), waiting(1, 1, {2}), waiting(2, 2, {0}), waiting(3, 3, {0})};
  CHECK(stuck_in(sight_of(plan, ring), Set(4)) == Set{true, true, true, true});
  std::vector<CoreSight> freed = ring;
  freed[2] = running(2);
  CHECK(stuck_in(sight_of(plan, freed), Set(4)) == Set(4));
  freed[2] = idle(2);  // its host may call an operator next
  CHECK(stuck_in(sight_of(plan, freed), Set(4)) == Set(4));
  CHECK(stuck_in(sight_of(plan, freed), Set{false, false, true, false}) == Set{true, true, false, true});
}

TEST_CASE("stuck set: any of several is stuck when all are; what holds, may give up or is not known is not stuck") {
  const shmem::SlotPlan plan = plan_of(3);
  std::vector<CoreSight> cores{waiting(0, 0, {1, 2}, Match::any), waiting(1, 1, {0}), running(2)};
  CHECK(stuck_in(sight_of(plan, cores), Set(3)) == Set(3));
  cores[2] = waiting(2, 2, {0});
  CHECK(stuck_in(sight_of(plan, cores), Set(3)) == Set{true, true, true});
  cores[1].wait->may_give_up = true;
  CHECK(stuck_in(sight_of(plan, cores), Set(3)) == Set(3));
  cores[1].wait->may_give_up = false;
  cores[0].wait->slots.clear();
  CHECK(stuck_in(sight_of(plan, cores), Set(3)) == Set(3));
  cores[0] = waiting(0, 0, {1});
  Sight sight = sight_of(plan, cores);
  sight.word = [](Rank owner, Slot slot) { return std::uint64_t{owner == Rank{0} && slot == Slot{1}}; };
  CHECK(stuck_in(sight, Set(3)) == Set(3));
}

TEST_CASE("stuck set: a credit's owner frees whoever waits for 0, its source whoever waits for 1") {
  shmem::SlotPlan plan(3);
  plan.declare({.name = "credit", .base = Offset{0}, .sources = 3, .writers = shmem::Writers::source_and_owner});
  const auto waits = [](int rank, int where, int source, std::uint64_t value) {
    CoreSight core = waiting(rank, where, {source});
    core.wait->compare = Compare::equal;
    core.wait->value = value;
    return core;
  };
  Sight sight = sight_of(plan, {waits(0, 1, 0, 0), waits(1, 1, 2, 1), running(2)});
  sight.word = [](Rank owner, Slot slot) { return std::uint64_t{owner == Rank{1} && slot == Slot{0}}; };
  CHECK(sight.writers_of(*sight.cores[0].wait) == std::vector{Rank{1}});  // 0 waits for 1 to give back
  CHECK(sight.writers_of(*sight.cores[1].wait) == std::vector{Rank{2}});  // 1 waits for 2 to fill
  CHECK(stuck_in(sight, Set(3)) == Set(3));
  sight.cores[2] = waits(2, 0, 1, 1);  // 2 waits for 1, and 1 for 2
  CHECK(stuck_in(sight, Set(3)) == Set{true, true, true});
  sight.cores[2] = idle(2);
  CHECK(stuck_in(sight, Set{false, false, true}) == Set{true, true, false});
  sight.cores[0].wait->compare = Compare::not_equal;  // 0, or another value: both may
  sight.cores[0].wait->value = 1;
  CHECK(sight.writers_of(*sight.cores[0].wait) == std::vector{Rank{0}, Rank{1}});
}

TEST_CASE("stuck set: as by trying all sets, on random waits") {
  const std::uint64_t seed = shmoe::test::seed_of_run();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  for (int run = 0; run < 3000; ++run) {
    CAPTURE(run);
    const int ranks = 1 + below(6);
    const int cores = 1 + below(2);
    const shmem::SlotPlan plan = plan_of(ranks);
    std::vector<CoreSight> all;
    Set ended(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      ended[static_cast<std::size_t>(rank)] = below(8) == 0;
      for (int core = 0; core < cores; ++core) {
        const int kind = ended[static_cast<std::size_t>(rank)] ? 0 : below(10);
        if (kind == 0) {
          all.push_back(idle(rank));
        } else if (kind == 1) {
          all.push_back(running(rank));
        } else {
          std::vector<int> slots;
          const Match match = static_cast<Match>(below(3));
          for (int i = 0; i < (match == Match::all ? 1 : 1 + below(3)); ++i)
            slots.push_back(below(ranks + 1 + (below(6) == 0)));
          all.push_back(waiting(rank, below(ranks), slots, match));
        }
        all.back().core = Core{core};
      }
    }
    const Sight sight = sight_of(plan, all);
    CHECK(stuck_in(sight, ended) == by_trying_all(sight, ended));
  }
}

TEST_CASE("stuck set: through two communicators, with other numbers of the same ranks") {
  const shmem::SlotPlan plan = plan_of(2);
  // World ranks 0 and 1 are members 0 and 1 of the first, 1 and 0 of the second.
  std::vector<Sight> sights{sight_of(plan, {waiting(0, 0, {1}), idle(1)}),
                            sight_of(plan, {waiting(0, 0, {1}), idle(1)})};
  sights[0].members = {Rank{0}, Rank{1}};
  sights[1].members = {Rank{1}, Rank{0}};
  CHECK(stuck_set(sights, Set(2)) == Set{true, true});
  for (const Sight& sight : sights) CHECK(stuck_in(sight, Set(2)) == Set(2));  // the other one may still come
  sights[0].open_ended = [](Rank member) { return member == Rank{0}; };
  CHECK(stuck_set(sights, Set(2)) == Set(2));
  sights[0].open_ended = {};
  sights[1].cores[0] = running(0);
  CHECK(stuck_set(sights, Set(2)) == Set(2));
  // A third rank, in neither operator, could end nothing; one that waits for it is free.
  sights[1].cores[0] = waiting(0, 0, {1});
  sights[1].members = {Rank{1}, Rank{2}};
  CHECK(stuck_set(sights, Set(3)) == Set(3));
  CHECK(stuck_set(sights, Set{false, false, true}) == Set{true, true, false});
}
