// Litmus tests: a program of a few lines and the set of everything it may end with, compared both ways over all
// schedules. Order of one core's writes, and what undoes it: fence, quiet, put_signal.

#include <doctest/doctest.h>

#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

TEST_CASE("litmus: message passing") {
  enum class Order { none, fence, fence_of_another, quiet };
  const auto run = [](Order order) {
    return outcomes({.ranks = 3}, 1, [order](CoreContext& c, Seen& seen) {
      if (c.rank() == Rank{0}) {
        put(c, 1, cell(0), 1);
        if (order == Order::fence) c.fence(Rank{1});
        if (order == Order::fence_of_another) c.fence(Rank{2});
        if (order == Order::quiet) c.quiet();
        notify(c, 1, 1);
      } else if (c.rank() == Rank{1}) {
        await(c, 0, 1);
        seen[0] = get(c, 1, cell(0));
      }
    });
  };
  CHECK(run(Order::none) == "0, 1");
  CHECK(run(Order::fence) == "1");
  CHECK(run(Order::fence_of_another) == "0, 1");
  CHECK(run(Order::quiet) == "1");
}

TEST_CASE("litmus: a fence orders one destination, quiet orders all of them") {
  enum class Order { fence_of_one, fence_of_both, quiet };
  // The row goes to rank 1, the signal to rank 2, which reads the row at rank 1.
  const auto run = [](Order order) {
    return outcomes({.ranks = 3}, 1, [order](CoreContext& c, Seen& seen) {
      if (c.rank() == Rank{0}) {
        put(c, 1, cell(0), 1);
        if (order != Order::quiet) c.fence(Rank{1});
        if (order == Order::fence_of_both) c.fence(Rank{2});
        if (order == Order::quiet) c.quiet();
        notify(c, 2, 1);
      } else if (c.rank() == Rank{2}) {
        await(c, 0, 1);
        seen[0] = get(c, 1, cell(0));
      }
    });
  };
  CHECK(run(Order::fence_of_one) == "0, 1");
  CHECK(run(Order::fence_of_both) == "0, 1");
  CHECK(run(Order::quiet) == "1");
}

TEST_CASE("litmus: a fence orders later writes after earlier ones, not the later ones among themselves") {
  CHECK(outcomes({}, 3, [](CoreContext& c, Seen& seen) {
          if (c.rank() == Rank{0}) {
            put(c, 1, cell(0), 1);
            c.fence(Rank{1});
            put(c, 1, cell(1), 1);
            put(c, 1, cell(2), 1);
          } else {
            seen[2] = get(c, 1, cell(2));
            seen[1] = get(c, 1, cell(1));
            seen[0] = get(c, 1, cell(0));
          }
        }) == "0 0 0, 1 0 0, 1 0 1, 1 1 0, 1 1 1");
}

TEST_CASE("litmus: put_signal orders its own payload and no earlier put") {
  const auto run = [](bool fence) {
    return outcomes({}, 2, [fence](CoreContext& c, Seen& seen) {
      if (c.rank() == Rank{0}) {
        put(c, 1, cell(0), 1);
        if (fence) c.fence(Rank{1});
        c.put_signal(Rank{1}, cell(1), Seen{1}, flag(c, 0), SignalOp::set, 1);
      } else {
        await(c, 0, 1);
        seen = {get(c, 1, cell(0)), get(c, 1, cell(1))};
      }
    });
  };
  CHECK(run(false) == "0 1, 1 1");
  CHECK(run(true) == "1 1");
}

TEST_CASE("litmus: a put after a put_signal may land before it") {
  CHECK(outcomes({}, 2, [](CoreContext& c, Seen& seen) {
          if (c.rank() == Rank{0}) {
            c.put_signal(Rank{1}, cell(0), Seen{1}, flag(c, 0), SignalOp::set, 1);
            put(c, 1, cell(1), 1);
          } else {
            seen[1] = get(c, 1, cell(1));
            seen[0] = get(c, 1, cell(0));
          }
        }) == "0 0, 0 1, 1 0, 1 1");
}

TEST_CASE("litmus: puts of one core to one address keep their order, those of two cores do not") {
  CHECK(outcomes({}, 2, [](CoreContext& c, Seen& seen) {
          if (c.rank() == Rank{0}) {
            put(c, 1, cell(0), 1);
            put(c, 1, cell(0), 2);
          } else {
            seen[0] = get(c, 1, cell(0));
            seen[1] = get(c, 1, cell(0));
          }
        }) == "0 0, 0 1, 0 2, 1 1, 1 2, 2 2");
  CHECK(outcomes({.ranks = 3}, 1, [](CoreContext& c, Seen& seen) {
          if (c.rank() != Rank{2}) {
            put(c, 2, cell(0), static_cast<std::uint64_t>(c.rank().value()) + 1);
            c.quiet();
            notify(c, 2, 1);
          } else {
            await(c, 0, 1);
            await(c, 1, 1);
            seen[0] = get(c, 2, cell(0));
          }
        }) == "1, 2");
}

TEST_CASE("litmus: signals of one core to one slot keep their order") {
  CHECK(outcomes({}, 2, [](CoreContext& c, Seen& seen) {
          if (c.rank() == Rank{0}) {
            notify(c, 1, 1);
            notify(c, 1, 2);
          } else {
            seen[0] = await(c, 0, 1);
            seen[1] = await(c, 0, 1);
          }
        }) == "1 1, 1 2, 2 2");
}

TEST_CASE("litmus: a get after a put of the same core") {
  enum class Order { none, fence, quiet };
  const auto run = [](Order order) {
    return outcomes({}, 1, [order](CoreContext& c, Seen& seen) {
      if (c.rank() != Rank{0}) return;
      put(c, 1, cell(0), 1);
      if (order == Order::fence) c.fence(Rank{1});
      if (order == Order::quiet) c.quiet();
      seen[0] = get(c, 1, cell(0));
    });
  };
  CHECK(run(Order::none) == "0, 1");
  CHECK(run(Order::fence) == "0, 1");
  CHECK(run(Order::quiet) == "1");
}

TEST_CASE("litmus: own memory is written at once") {
  CHECK(outcomes({}, 2, [](CoreContext& c, Seen& seen) {
          if (c.rank() != Rank{0}) return;
          put(c, 0, cell(0), 1);
          seen[0] = get(c, 0, cell(0));
          c.signal(Rank{0}, flag(c, 0), SignalOp::set, 7);
          seen[1] = await(c, 0, 1);
        }) == "1 7");
}
