// How an all-to-all over heads is cut: the worked numbers of the specification, and what must hold for any shape.

#include <map>
#include <set>

#include <doctest/doctest.h>

#include "ops/tile/all2all_tasks.hpp"
#include "ops/tile/residency.hpp"
#include "ops/tile/tile.hpp"

using namespace shmoe;
using namespace shmoe::ops;

namespace {

/// H heads, nbs blocks of one row, D in one piece.
All2AllTasks tasks_of(std::int32_t ranks, std::int64_t heads, std::int64_t blocks, std::int32_t buffers = 2) {
  return {{.rows = blocks, .heads = heads, .dim = 1}, {.block_rows = 1, .block_dim = 1, .buffers = buffers}, ranks};
}

shmem::SlotFamily family_of(std::int32_t buffers, std::int32_t ranks, std::int64_t per_peer) {
  return {.name = "all2all",
          .base = Offset{0},
          .buffers = static_cast<std::uint32_t>(buffers),
          .sources = static_cast<std::uint32_t>(ranks),
          .events = static_cast<std::uint32_t>(per_peer),
          .writers = shmem::Writers::source_and_owner};
}

bool ends(std::int32_t ranks, std::int32_t programs, std::int32_t cores, std::int64_t blocks, std::int64_t heads = 2) {
  return !missing_program(tasks_of(ranks, heads, blocks), All2AllCrew(programs), Merge::none, cores);
}

}  // namespace

TEST_CASE("tasks: counts and the decoding of a task") {
  const All2AllTasks tasks({.rows = 130, .heads = 3, .dim = 300}, {.block_rows = 64, .block_dim = 128, .buffers = 2},
                           5);
  CHECK(tasks.blocks() == 3);
  CHECK(tasks.rows_of(0) == 64);
  CHECK(tasks.rows_of(2) == 2);
  CHECK(tasks.per_peer() == 9);
  CHECK(tasks.per_block() == 45);
  CHECK(tasks.buffer_of(2) == 0);
  const All2AllTask last = tasks.task(44);
  CHECK(last.peer == 4);
  CHECK(last.u == 8);
  CHECK(last.head == 2);
  CHECK(last.columns.first == 256);
  CHECK(last.columns.last == 300);
  CHECK(tasks.tensor_bytes() == Bytes{130 * 5 * 3 * 300 * 2});
  CHECK(tasks.buffer_bytes() == Bytes{2 * 64 * 15 * 300 * 2});
  CHECK(All2AllTasks({.rows = 0}, {}, 2).blocks() == 0);
}

TEST_CASE("tasks: each (peer, head, column) once in a block, and each task of each block is one worker's") {
  for (const std::int32_t ranks : {1, 2, 3, 5, 7}) {
    for (const std::int64_t heads : {1, 2, 5}) {
      for (const std::int64_t dim : {1, 4, 9}) {
        const All2AllTasks tasks({.rows = 7, .heads = heads, .dim = dim}, {.block_rows = 2, .block_dim = 4}, ranks);
        std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
        for (std::int64_t t = 0; t < tasks.per_block(); ++t) {
          const All2AllTask task = tasks.task(t);
          for (std::int64_t d = task.columns.first; d < task.columns.last; ++d) seen.insert({task.peer, task.head, d});
        }
        CHECK(seen.size() == static_cast<std::size_t>(ranks * heads * dim));
        for (const Merge merge : {Merge::none, Merge::blocks}) {
          for (const std::int64_t workers : {1, 2, 3, 8}) {
            int wrong = 0;
            for (std::int64_t block = 0; block < tasks.blocks(); ++block) {
              std::multiset<std::int64_t> taken;
              for (std::int64_t worker = 0; worker < workers; ++worker) {
                const std::int64_t first = tasks.first_task(block, worker, workers, merge);
                for (std::int64_t t = first; t < tasks.per_block(); t += workers) {
                  taken.insert(t);
                  // Merged, all buffers are one row of work, and a slot stays with its worker.
                  const std::int64_t place = merge == Merge::none ? t : block % 2 * tasks.per_block() + t;
                  wrong += place % workers != worker;
                }
              }
              for (std::int64_t t = 0; t < tasks.per_block(); ++t) wrong += taken.count(t) != 1;
            }
            CHECK(wrong == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("slots: buffer * T + source * U + u, each task of each buffer one") {
  for (const std::int32_t ranks : {1, 2, 3, 7}) {
    const All2AllTasks tasks = tasks_of(ranks, 3, 5);
    const shmem::SlotFamily family = family_of(2, ranks, tasks.per_peer());
    const tile::Signals<std::int64_t> signals(family);
    std::set<std::uint32_t> slots;
    for (std::int64_t buffer = 0; buffer < 2; ++buffer) {
      for (std::int64_t source = 0; source < ranks; ++source) {
        for (std::int64_t u = 0; u < tasks.per_peer(); ++u) {
          const Slot slot = signals.at(buffer, Rank{source}, u).slot;
          CHECK(slot == signals[buffer * tasks.per_block() + source * tasks.per_peer() + u].slot);
          slots.insert(slot.value());
        }
      }
    }
    CHECK(slots.size() == static_cast<std::size_t>(2 * tasks.per_block()));
    CHECK(*slots.rbegin() == 2 * tasks.per_block() - 1);
  }
}

TEST_CASE(
    "slots: the published formula, with the task in place of u, leaves the array and maps two tasks to one slot") {
  for (const std::int32_t ranks : {2, 3}) {
    const All2AllTasks tasks = tasks_of(ranks, 2, 4);
    const shmem::SlotFamily family = family_of(2, ranks, tasks.per_peer());
    const tile::Signals<std::int64_t> signals(family);
    std::int64_t highest = 0;
    std::map<std::int64_t, int> waited_for;  // in the first buffer, by the consumers of a rank
    for (std::int64_t t = 0; t < tasks.per_block(); ++t) {
      const std::int64_t source = tasks.task(t).peer;
      ++waited_for[source * tasks.per_peer() + t];
      for (std::int64_t any = 0; any < ranks; ++any) {
        highest = std::max(highest, tasks.per_block() + any * tasks.per_peer() + t);
      }
    }
    CHECK(highest == 2 * tasks.per_block() - tasks.per_peer() + tasks.per_block() - 1);
    CHECK(highest >= signals.size());
    CHECK_THROWS_AS((void)signals[highest], ContractViolation);
    CHECK(waited_for[3] == (ranks == 2 ? 1 : 2));  // three ranks: (source 0, u 1) and (source 1, u 0)
    CHECK(waited_for.size() == 4);                 // of 4 and of 6 tasks
  }
}

TEST_CASE("slots: a family has one width") {
  shmem::SlotFamily family = family_of(1, 2, 3);
  CHECK_THROWS_AS(tile::Signals<std::int32_t>{family}, ContractViolation);
  family.width = 4;
  CHECK(tile::Signals<std::int32_t>(family).size() == 6);
  CHECK_THROWS_AS(tile::Signals<std::int64_t>{family}, ContractViolation);
}

TEST_CASE("occupancy: the table of full cores, and what it does not see") {
  struct Row {
    std::int64_t heads, active;
    bool full;
    double balance, merged;
  };
  for (const Row& row :
       {Row{8, 16, false, 0.444, 0.948}, Row{12, 24, false, 0.667, 0.970}, Row{24, 36, true, 0.667, 0.992},
        Row{28, 36, true, 0.778, 0.996}, Row{32, 36, true, 0.889, 0.998}, Row{40, 36, true, 0.741, 0.988},
        Row{48, 36, true, 0.889, 0.992}, Row{56, 36, true, 0.778, 0.996}}) {
    const All2AllTasks tasks = tasks_of(2, row.heads, 32, 32);
    const Occupancy apart{tasks.per_block(), 36};
    const Occupancy merged{32 * tasks.per_block(), 36};
    CHECK(apart.active() == row.active);
    CHECK(apart.full() == row.full);
    CHECK(apart.utilisation() == static_cast<double>(row.active) / 36);
    CHECK(apart.balance() == doctest::Approx(row.balance).epsilon(0.001));
    CHECK(merged.balance() == doctest::Approx(row.merged).epsilon(0.001));
    CHECK(best_merge(tasks, 36) == Merge::blocks);
  }
  CHECK(best_merge(tasks_of(2, 18, 32, 32), 36) == Merge::none);  // 36 tasks on 36 cores
  CHECK(best_merge(tasks_of(2, 8, 32, 2), 36) == Merge::blocks);
  CHECK(best_merge(tasks_of(2, 12, 32, 2), 36) == Merge::none);  // 48 in two waves are no better than 24 in one
  CHECK(Occupancy{0, 4}.balance() == 1);
}

TEST_CASE("T83: whatever the number of programs, each role has workers, and every worker of a role is one program") {
  for (std::int32_t programs = 1; programs <= shmem::kMaxCores; ++programs) {
    CAPTURE(programs);
    const All2AllCrew crew(programs);
    CHECK(crew.workers() == (programs % 2 == 0 ? programs / 2 : programs));
    std::set<Core> producers;
    std::set<Core> consumers;
    for (std::int32_t worker = 0; worker < crew.workers(); ++worker) {
      CHECK(crew.produces(crew.producer(worker)));
      CHECK(crew.consumes(crew.consumer(worker)));
      CHECK(crew.worker(crew.producer(worker)) == worker);
      CHECK(crew.worker(crew.consumer(worker)) == worker);
      producers.insert(crew.producer(worker));
      consumers.insert(crew.consumer(worker));
    }
    for (Core program{0}; program.value() < programs; ++program) {
      CHECK(producers.contains(program) == crew.produces(program));
      CHECK(consumers.contains(program) == crew.consumes(program));
    }
  }
}

TEST_CASE("residency: more programs than cores end only where nobody needs one that has not begun") {
  // Program p runs on core p mod cores. 4 programs of each role, 4 blocks, 2 buffers, 2 heads.
  CHECK(ends(2, 8, 8, 4));
  CHECK(ends(2, 8, 4, 4));
  CHECK(ends(2, 8, 2, 4));
  CHECK(!ends(2, 8, 1, 4));
  CHECK(!ends(3, 8, 4, 4));
  CHECK(!ends(3, 8, 2, 4));
  CHECK(!ends(3, 8, 1, 4));
  CHECK(ends(4, 8, 4, 4));
  CHECK(!ends(4, 8, 1, 4));
  CHECK(!ends(2, 8, 3, 4));
  // No buffer is used again, and producers begin first: the number of cores does not matter.
  for (const std::int32_t cores : {1, 2, 4}) CHECK(ends(2, 8, cores, 2));
}

TEST_CASE("residency: the reason names the program that waits and the one that never begins") {
  CHECK(missing_program(tasks_of(2, 1, 3), All2AllCrew(2), Merge::none, 1) ==
        "program 0 of rank 0 waits in block 2 for program 1 of rank 0, which begins on core 0 only after program 0 has "
        "ended");
}
