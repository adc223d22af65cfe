// Litmus tests of several writers and observers, and of writes that land in pieces.

#include <doctest/doctest.h>

#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

/// Cell n of rank 0 holds the counter "sum" that every rank may add to.
void declare_sum(shmem::SlotPlan& slots, const shmem::BlockMap& map) {
  slots.declare({.name = "sum",
                 .base = map.user_data.at + Bytes{64 * 1024},
                 .writers = shmem::Writers::any_rank,
                 .op = SignalOp::add});
}

}  // namespace

TEST_CASE("litmus: store buffering needs quiet") {
  enum class Order { none, fence, quiet };
  const auto run = [](Order order) {
    return outcomes({}, 2, [order](CoreContext& c, Seen& seen) {
      const std::int64_t me = c.rank().value();
      put(c, 1 - me, cell(0), 1);
      if (order == Order::fence) c.fence(Rank{1 - me});
      if (order == Order::quiet) c.quiet();
      seen[c.rank().index()] = get(c, me, cell(0));
    });
  };
  CHECK(run(Order::none) == "0 0, 0 1, 1 0, 1 1");
  CHECK(run(Order::fence) == "0 0, 0 1, 1 0, 1 1");
  CHECK(run(Order::quiet) == "0 1, 1 0, 1 1");
}

TEST_CASE("litmus: load buffering does not happen, because a get completes before the next put") {
  CHECK(outcomes({}, 2, [](CoreContext& c, Seen& seen) {
          const std::int64_t me = c.rank().value();
          seen[c.rank().index()] = get(c, me, cell(0));
          put(c, 1 - me, cell(0), 1);
        }) == "0 0, 0 1, 1 0");
}

TEST_CASE("litmus: two observers of one memory agree about the order of independent writes") {
  const auto litmus = [](CoreContext& c, Seen& seen) {
    const std::uint64_t me = c.rank().index() % 2;
    if (c.rank() < Rank{2}) {
      put(c, 2, cell(me), 1);
    } else {
      seen[2 * me] = get(c, 2, cell(me));
      seen[2 * me + 1] = get(c, 2, cell(1 - me));
    }
  };
  const std::string all =
      "0 0 0 0, 0 0 0 1, 0 0 1 0, 0 0 1 1, 0 1 0 0, 0 1 0 1, 0 1 1 0, 0 1 1 1, 1 0 0 0, 1 0 0 1, 1 0 1 1, 1 1 0 0, "
      "1 1 0 1, 1 1 1 0, 1 1 1 1";  // all but 1 0 1 0
  CHECK(outcomes({.ranks = 4}, 4, litmus) == all);
}

TEST_CASE("litmus: two observers with a copy each need not agree") {
  CHECK(outcomes({.ranks = 3}, 2, [](CoreContext& c, Seen& seen) {
          const std::uint64_t me = c.rank().index();
          if (me == 0) {
            // Two writes, each to both observers.
            for (const std::int64_t to : {1, 2}) put(c, to, cell(0), 1);
            c.quiet();
            for (const std::int64_t to : {2, 1}) put(c, to, cell(1), 1);
          } else {
            const std::uint64_t first = get(c, c.rank().value(), cell(2 - me));
            seen[me - 1] = 2 * first + get(c, c.rank().value(), cell(me - 1));
          }
        }) == "0 0, 0 1, 0 2, 0 3, 1 0, 1 1, 1 2, 1 3, 3 0, 3 1, 3 2, 3 3");
}

TEST_CASE("litmus: adds of three writers are summed exactly, whatever they meet in") {
  const Shape shape{.ranks = 4, .declare_slots = declare_sum};
  const auto run = [&](std::uint64_t awaited) {
    return outcomes(shape, 1, [awaited](CoreContext& c, Seen& seen) {
      const Slot sum = c.slots().family("sum").at(0, Rank{0});
      if (c.rank() != Rank{0}) {
        c.signal(Rank{0}, sum, SignalOp::add, c.rank().index());
      } else {
        shmem::Token token = c.wait(sum, Compare::at_least, awaited);
        seen[0] = token.arrival().value;
        std::move(token).ordering_only();
      }
    });
  };
  CHECK(run(6) == "6");
  CHECK(run(4) == "4, 5, 6");
  CHECK(run(1) == "1, 2, 3, 4, 5, 6");
  CHECK(run(7) == "stuck");
}

// T109
TEST_CASE("litmus: a count of arrivals does not say which chunk has come, a slot for each chunk does") {
  // Ranks 0 and 1 send a chunk each; rank 2 takes them in order.
  const auto run = [](bool slot_each) {
    return outcomes({.ranks = 3, .declare_slots = declare_sum}, 2, [slot_each](CoreContext& c, Seen& seen) {
      const Slot sum = c.slots().family("sum").at(0, Rank{0});
      const std::int64_t me = c.rank().value();
      if (me < 2) {
        c.put_signal(Rank{2}, cell(c.rank().index()), Seen{1}, slot_each ? flag(c, me) : sum,
                     slot_each ? SignalOp::set : SignalOp::add, 1);
        return;
      }
      for (const std::int64_t chunk : {0, 1}) {
        const auto place = static_cast<std::uint64_t>(chunk);
        if (slot_each) {
          await(c, chunk, 1);
        } else {
          c.wait(sum, Compare::at_least, place + 1).ordering_only();
        }
        seen[place] = get(c, 2, cell(place));
      }
    });
  };
  CHECK(run(false) == "0 1, 1 1");
  CHECK(run(true) == "1 1");
}

TEST_CASE("litmus: a put lands in pieces of the unit") {
  const auto run = [](std::uint64_t unit) {
    return outcomes({.unit = Bytes{unit}}, 4, [](CoreContext& c, Seen& seen) {
      if (c.rank() == Rank{0}) {
        const std::uint32_t row[4] = {1, 1, 1, 1};
        c.put(Rank{1}, cell(0), row);
        notify(c, 1, 1);
      } else {
        await(c, 0, 1);
        std::uint32_t row[4] = {};
        c.get(Rank{1}, cell(0), row, shmem::Witness::own());
        seen.assign(row, row + 4);
      }
    });
  };
  CHECK(run(0) == "0 0 0 0, 1 1 1 1");
  CHECK(run(16) == "0 0 0 0, 1 1 1 1");
  CHECK(run(8) == "0 0 0 0, 0 0 1 1, 1 1 0 0, 1 1 1 1");
  CHECK(run(12) == "0 0 0 0, 0 0 0 1, 1 1 1 0, 1 1 1 1");
  CHECK(run(4) ==
        "0 0 0 0, 0 0 0 1, 0 0 1 0, 0 0 1 1, 0 1 0 0, 0 1 0 1, 0 1 1 0, 0 1 1 1, "
        "1 0 0 0, 1 0 0 1, 1 0 1 0, 1 0 1 1, 1 1 0 0, 1 1 0 1, 1 1 1 0, 1 1 1 1");
}

TEST_CASE("litmus: the signal of a put_signal lands after every piece of its payload") {
  CHECK(outcomes({.unit = Bytes{4}}, 2, [](CoreContext& c, Seen& seen) {
          if (c.rank() == Rank{0}) {
            const std::uint32_t row[2] = {1, 1};
            c.put_signal(Rank{1}, cell(0), row, flag(c, 0), SignalOp::set, 1);
          } else {
            await(c, 0, 1);
            std::uint32_t row[2] = {};
            c.get(Rank{1}, cell(0), row, shmem::Witness::own());
            seen.assign(row, row + 2);
          }
        }) == "1 1");
}

TEST_CASE("litmus: pieces of two puts to one place land in the order of the puts") {
  CHECK(outcomes({.unit = Bytes{4}}, 2, [](CoreContext& c, Seen& seen) {
          if (c.rank() == Rank{0}) {
            for (const std::uint32_t value : {1U, 2U}) {
              const std::uint32_t row[2] = {value, value};
              c.put(Rank{1}, cell(0), row);
            }
          } else {
            std::uint32_t row[2] = {};
            c.get(Rank{1}, cell(0), row, shmem::Witness::own());
            seen.assign(row, row + 2);
          }
        }) == "0 0, 0 1, 0 2, 1 0, 1 1, 1 2, 2 0, 2 1, 2 2");
}

TEST_CASE("litmus: cores of one rank see each other's writes in program order") {
  CHECK(outcomes({.ranks = 1, .cores = 2}, 2, [](CoreContext& c, Seen& seen) {
          if (c.core() == Core{0}) {
            put(c, 0, cell(0), 1);
            put(c, 0, cell(1), 1);
          } else {
            seen[1] = get(c, 0, cell(1));
            seen[0] = get(c, 0, cell(0));
          }
        }) == "0 0, 1 0, 1 1");
}

TEST_CASE("litmus: the payload of a put_signal to the own rank is written before the signal") {
  CHECK(outcomes({.ranks = 1, .cores = 2, .declare_slots = declare_sum}, 2, [](CoreContext& c, Seen& seen) {
          const Slot sum = c.slots().family("sum").at(0, Rank{0});
          if (c.core() == Core{0}) {
            c.put_signal(Rank{0}, cell(0), Seen{1}, sum, SignalOp::add, 1);
          } else {
            seen[1] = holds(c.test({.where = Rank{0}, .slots = {&sum, 1}, .value = 1})) ? 1 : 0;
            seen[0] = get(c, 0, cell(0));
          }
        }) == "0 0, 1 0, 1 1");
  // The other way round the payload is seen and the signal is not, which needs a step between the two.
  CHECK(outcomes({.ranks = 1, .cores = 2, .declare_slots = declare_sum}, 2, [](CoreContext& c, Seen& seen) {
          const Slot sum = c.slots().family("sum").at(0, Rank{0});
          if (c.core() == Core{0}) {
            c.put_signal(Rank{0}, cell(0), Seen{1}, sum, SignalOp::add, 1);
          } else {
            seen[0] = get(c, 0, cell(0));
            seen[1] = holds(c.test({.where = Rank{0}, .slots = {&sum, 1}, .value = 1})) ? 1 : 0;
          }
        }) == "0 0, 0 1, 1 0, 1 1");
}
