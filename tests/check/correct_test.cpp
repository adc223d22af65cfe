// No false alarm: programs that are right are clean on every schedule, or on many.

#include <doctest/doctest.h>

#include <stdexcept>

#include "runtime/zero_buffer_sync.hpp"
#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

std::string often(const Shape& shape, const Body& body) {
  World world(shape);
  Explorer explorer(world, body);
  return to_string(explorer.portfolio(3, {.runs = 2000}).failure.verdict);
}

}  // namespace

TEST_CASE("a ring that passes a row on is clean") {
  for (const bool own_signal : {false, true}) {
    CHECK(often({.ranks = 4}, one_launch([own_signal](CoreContext& c) {
                  const std::int64_t me = c.rank().value();
                  const std::int64_t next = (me + 1) % 4;
                  const std::int64_t last = (me + 3) % 4;
                  for (std::uint64_t step = 1; step <= 3; ++step) {
                    if (own_signal) {
                      c.put_signal(Rank{next}, cell(step), Seen{step}, flag(c, me), SignalOp::set, step);
                    } else {
                      put(c, next, cell(step), step);
                      c.fence(Rank{next});
                      notify(c, next, step);
                    }
                    await(c, last, step);
                    if (get(c, me, cell(step)) != step) throw std::runtime_error("another row");
                  }
                })) == "clean: ");
  }
}

TEST_CASE("a later put_signal to the same slot tells of the earlier one") {
  CHECK(verdict_of({}, [](CoreContext& c) {
          for (const std::uint64_t step : {1U, 2U}) {
            if (c.rank() == Rank{0}) {
              c.put_signal(Rank{1}, cell(step), Seen{step}, flag(c, 0), SignalOp::set, step);
            } else {
              await(c, 0, step);
              (void)get(c, 1, cell(step));
            }
          }
        }).clean());
}

TEST_CASE("the flags and barriers of the zero-buffer sync are clean in `safe`") {
  for (const std::int32_t cores : {1, 2}) {
    for (const bool views : {true, false}) {
      CAPTURE(cores);
      const Body body = [](Communicator& comm) -> Result<void> {
        for (std::uint64_t round = 1; round <= 3; ++round) {
          auto done = comm.launch("flags", [round](CoreContext& c) {
            ZeroBufferSync sync(c);
            CallCard card("flags");
            sync.enter(card.with("round", static_cast<std::int64_t>(round)), std::nullopt);
            const Rank other{1 - c.rank().value()};
            const auto event = static_cast<std::uint32_t>(c.core().value());
            const Offset row = cell(8 + c.core().index());
            std::uint64_t scratch[1] = {round};
            c.write(other, row, std::span<std::uint64_t>{scratch}).data()[0] = round;
            sync.set_flag(other, event, 1);
            const shmem::Witness there = consume_token(sync.wait_flag(other, event, 1));
            if (c.read(c.rank(), row, std::span<std::uint64_t>{scratch}, there).data()[0] != round) {
              throw std::runtime_error("stale");
            }
            c.sync_all();
            sync.set_all_rank_core_flag(2);
            sync.wait_all_rank_all_event(2);
            sync.barrier_all();
          });
          if (!done) return done;
        }
        return {};
      };
      CHECK(often({.ranks = 2, .cores = cores, .views = views}, body) == "clean: ");
    }
  }
}

TEST_CASE("a heap block used again after quiet and a barrier is clean") {
  const Body body = [](Communicator& comm) -> Result<void> {
    for (std::uint64_t round = 1; round <= 3; ++round) {
      const Result<Offset> block = comm.allocate(Bytes{64 * round});
      if (!block) return block.error();
      if (auto met = comm.barrier(); !met) return met;
      auto done = comm.launch("write", [&](CoreContext& c) { put(c, 1 - c.rank().value(), *block, round); });
      if (!done) return done;
      if (auto met = comm.barrier(); !met) return met;
      done = comm.launch("read", [&](CoreContext& c) {
        if (get(c, c.rank().value(), *block) != round) throw std::runtime_error("stale");
      });
      if (!done) return done;
      if (auto met = comm.barrier(); !met) return met;
      if (auto freed = comm.free(*block); !freed) return freed;
    }
    return {};
  };
  CHECK(often({.ranks = 2}, body) == "clean: ");
}

TEST_CASE("blocks that compact() moves are clean where every rank follows") {
  const Body body = [](Communicator& comm) -> Result<void> {
    const Result<Offset> hole = comm.allocate(Bytes{64});
    const Result<Offset> wide = comm.allocate(Bytes{192}, shmem::Mobility::movable);
    const Result<Offset> small = comm.allocate(Bytes{64}, shmem::Mobility::movable);
    if (!hole || !wide || !small) return Error{.code = Errc::out_of_memory, .context = "small blocks"};
    if (auto met = comm.barrier(); !met) return met;
    const auto send = [&](Offset to, std::uint64_t value) {
      return comm.launch("send", [=](CoreContext& c) { put(c, 1 - c.rank().value(), to, value); });
    };
    const auto find = [&](Offset at, std::uint64_t value) {
      return comm.launch("find", [=](CoreContext& c) {
        if (get(c, c.rank().value(), at) != value) throw std::runtime_error("stale");
      });
    };
    if (auto done = send(*wide + Bytes{128}, 5); !done) return done;
    if (auto done = send(*small, 6); !done) return done;
    if (auto freed = comm.free(*hole); !freed) return freed;

    const Result<std::vector<shmem::Move>> moves = comm.compact();
    if (!moves) return moves.error();
    if (moves->size() != 2) return Error{.code = Errc::io, .context = "two blocks move"};
    const Offset wide_now = shmem::place_after(*moves, *wide);
    const Offset small_now = shmem::place_after(*moves, *small);
    if (auto done = find(wide_now + Bytes{128}, 5); !done) return done;
    if (auto done = find(small_now, 6); !done) return done;
    if (auto met = comm.barrier(); !met) return met;
    if (auto done = send(wide_now + Bytes{184}, 7); !done) return done;
    if (auto met = comm.barrier(); !met) return met;
    if (auto done = find(wide_now + Bytes{184}, 7); !done) return done;
    if (auto met = comm.barrier(); !met) return met;
    for (const Offset at : {wide_now, small_now}) {
      if (auto freed = comm.free(at); !freed) return freed;
    }
    return comm.barrier();
  };
  CHECK(often({.ranks = 2}, body) == "clean: ");
}

TEST_CASE("a read view that is open while its bytes are overwritten is a race, one that is closed is not") {
  const auto run = [](bool closed) {
    return verdict_of({}, [closed](CoreContext& c) {
      if (c.rank() == Rank{0}) {
        await(c, 1, 1);
        put(c, 1, cell(0), 1);
        return;
      }
      std::uint64_t scratch[1] = {};
      const auto read = [&] {
        return c.read(Rank{1}, cell(0), std::span<std::uint64_t>{scratch}, shmem::Witness::own());
      };
      if (closed) {
        (void)read().data();
        notify(c, 0, 1);
        return;
      }
      const auto view = read();
      notify(c, 0, 1);
      c.quiet();
    });
  };
  CHECK(run(true).clean());
  CHECK(!run(false).clean());
}
