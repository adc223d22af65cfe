// Litmus tests of flags that are reset or overtaken, of rounds near their wrap, of SyncAll, of views, and of the strong
// mode.

#include <doctest/doctest.h>

#include "runtime/zero_buffer_sync.hpp"
#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

/// What rank 1 reads in two rounds.
std::string pulses(bool ack_first) {
  return outcomes({.declare_slots = declare_pulse}, 2, [ack_first](CoreContext& c, Seen& seen) {
    two_pulses(c, ack_first, [&](std::uint64_t round, std::uint64_t value) { seen[round - 1] = value; });
  });
}

}  // namespace

TEST_CASE("litmus: a flag cleared after the acknowledgement may wipe the next one") {
  CHECK(pulses(false) == "1 2");
  CHECK(pulses(true) == "1 2, stuck");
}

TEST_CASE("litmus: an equality wait may be overrun, one for at least may not") {
  const auto run = [](Compare compare) {
    return outcomes({}, 1, [compare](CoreContext& c, Seen& seen) {
      if (c.rank() == Rank{0}) {
        for (const std::uint64_t word : {1U, 2U}) {
          notify(c, 1, word);
          c.quiet();
        }
      } else {
        shmem::Token token = c.wait(flag(c, 0), compare, 1);
        seen[0] = token.arrival().value;
        std::move(token).ordering_only();
      }
    });
  };
  CHECK(run(Compare::equal) == "1, stuck");
  CHECK(run(Compare::at_least) == "1, 2");
  CHECK(run(Compare::not_equal) == "0, 2");  // at once, or after the 2
}

TEST_CASE("litmus: SyncAll completes what the cores sent; a barrier of their own without quiet does not") {
  enum class Barrier { sync_all, adds, quiet_and_adds };
  // Core 0 writes at rank 1, core 1 signals rank 1 after the barrier.
  const auto run = [](Barrier barrier) {
    Shape shape{.ranks = 2, .cores = 2};
    shape.declare_slots = [](shmem::SlotPlan& slots, const shmem::BlockMap& map) {
      slots.declare({.name = "met",
                     .base = map.user_data.at + Bytes{64 * 1024},
                     .writers = shmem::Writers::own_cores,
                     .op = SignalOp::add});
    };
    return outcomes(shape, 1, [barrier](CoreContext& c, Seen& seen) {
      if (c.rank() == Rank{1}) {
        if (c.core() == Core{1}) return;
        await(c, 0, 1);
        seen[0] = get(c, 1, cell(0));
        return;
      }
      if (c.core() == Core{0}) put(c, 1, cell(0), 1);
      if (barrier == Barrier::sync_all) {
        c.sync_all();
      } else {
        const Slot met = c.slots().family("met").at(0, Rank{0});
        if (barrier == Barrier::quiet_and_adds) c.quiet();
        c.signal(Rank{0}, met, SignalOp::add, 1);
        c.wait(met, Compare::at_least, 2).ordering_only();
      }
      if (c.core() == Core{1}) notify(c, 1, 1);
    });
  };
  CHECK(run(Barrier::sync_all) == "1");
  CHECK(run(Barrier::adds) == "0, 1");
  CHECK(run(Barrier::quiet_and_adds) == "1");
}

TEST_CASE("litmus: flags over the wrap of the round") {
  // Three rounds, each a flag of rank 0 that rank 1 waits for; what rank 1 reads is the row of the round or, by the
  // buffer, of a later one.
  const auto run = [](const Profile& profile, std::uint64_t first_round) {
    World world({.profile = profile, .first_round = first_round});
    const Body body = [](Communicator& comm) -> Result<void> {
      for (int round = 0; round < 3; ++round) {
        auto done = comm.launch("flags", [](CoreContext& c) {
          ZeroBufferSync sync(c);
          const Rank other{1 - c.rank().value()};
          sync.set_flag(other, 0, 7);
          sync.wait_flag(other, 0, 7).ordering_only();
        });
        if (!done) return done;
      }
      return {};
    };
    const Explored all = explore_all(
        world, body, [](const Run& r) { return std::string(name_of(r.verdict.kind)); }, 1'000'000);
    return fmt::format("{}{}", fmt::join(all.outcomes, ", "), all.exhausted ? "" : " not exhausted");
  };
  for (const Profile& profile : kProfiles) {
    for (const std::uint64_t round : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 2, (std::uint64_t{1} << 32) - 1}) {
      CAPTURE(name_of(profile.id));
      CAPTURE(round);
      CHECK(run(profile, round) == "clean");
    }
  }
  // A flag of `safe` has 48 bits for the round: at 2^48 the word begins at 0 again, and what lies there is larger.
  CHECK(run(kSafe, (std::uint64_t{1} << 48) - 3) == "clean");
}

TEST_CASE("litmus: what is written into a view lands when it closes") {
  for (const bool views : {true, false}) {
    CAPTURE(views);
    CHECK(outcomes({.views = views}, 2, [](CoreContext& c, Seen& seen) {
            if (c.rank() == Rank{0}) {
              std::uint64_t scratch[1] = {};
              {
                const auto view = c.write(Rank{1}, cell(0), std::span<std::uint64_t>{scratch});
                view.data()[0] = 1;
                c.quiet();  // completes nothing of an open view
                notify(c, 1, 1);
                c.quiet();
              }
              c.fence(Rank{1});
              notify(c, 1, 2);
            } else {
              await(c, 0, 1);
              seen[0] = get(c, 1, cell(0));
              await(c, 0, 2);
              seen[1] = get(c, 1, cell(0));
            }
          }) == "0 1, 1 1");
  }
}

TEST_CASE("litmus: a write view of own memory is one write") {
  CHECK(outcomes({.ranks = 1, .cores = 2}, 2, [](CoreContext& c, Seen& seen) {
          if (c.core() == Core{0}) {
            for (const std::uint64_t n : {0U, 1U}) {
              std::uint64_t scratch[1] = {};
              c.write(Rank{0}, cell(n), std::span<std::uint64_t>{scratch}).data()[0] = 1;
            }
          } else {
            seen[1] = get(c, 0, cell(1));
            seen[0] = get(c, 0, cell(0));
          }
        }) == "0 0, 1 0, 1 1");
}

TEST_CASE("litmus: the strong mode shows the strong outcomes only") {
  const auto message_passing = [](bool weak) {
    return outcomes({.weak = weak}, 1, [](CoreContext& c, Seen& seen) {
      if (c.rank() == Rank{0}) {
        put(c, 1, cell(0), 1);
        notify(c, 1, 1);
      } else {
        await(c, 0, 1);
        seen[0] = get(c, 1, cell(0));
      }
    });
  };
  CHECK(message_passing(true) == "0, 1");
  CHECK(message_passing(false) == "1");
  const auto store_buffering = [](bool weak) {
    return outcomes({.weak = weak}, 2, [](CoreContext& c, Seen& seen) {
      put(c, 1 - c.rank().value(), cell(0), 1);
      seen[c.rank().index()] = get(c, c.rank().value(), cell(0));
    });
  };
  CHECK(store_buffering(true) == "0 0, 0 1, 1 0, 1 1");
  CHECK(store_buffering(false) == "0 1, 1 0, 1 1");
  CHECK(verdict_of({.weak = true}, hand_over(false)).kind != VerdictKind::clean);
  CHECK(verdict_of({.weak = false}, hand_over(false)).kind == VerdictKind::clean);
}
