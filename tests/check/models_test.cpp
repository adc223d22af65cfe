// The protocols of tests/models with the same constants: the checker must say what tests/models/run.py expects of SPIN.
// Where the model lets an assertion fail, the body here returns an error; races are not reported.

#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "runtime/zero_buffer_sync.hpp"
#include "tests/check/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::check;
using namespace shmoe::runtime::check::test;
using shmem::SignalOp;

namespace {

/// Row of the table in run.py -> verdict.
std::map<std::string, std::string> expected_verdicts() {
  std::map<std::string, std::string> table;
  std::ifstream file(SHMOE_MODELS "/run.py");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("    (\"")) continue;
    const std::size_t verdict = line.rfind(", \"") + 3;
    table[line.substr(6, line.find('"', 6) - 6)] = line.substr(verdict, line.find('"', verdict) - verdict);
  }
  return table;
}

void require(bool holds) {
  if (!holds) throw std::runtime_error("assertion");
}

/// Everything that many schedules end with, in run.py's words.
std::string verdict(Shape shape, const StoredKernel& kernel, const std::function<void()>& reset = {}) {
  shape.data_steps = shape.ranks * shape.cores <= 2;
  shape.races = false;
  shape.declare_slots = [](shmem::SlotPlan& slots, const shmem::BlockMap& map) {
    declare_pulse(slots, map);
    slots.declare({.name = "met",
                   .base = map.user_data.at + Bytes{64 * 1024 + 64},
                   .writers = shmem::Writers::own_cores,
                   .op = SignalOp::add});
  };
  World world(shape);
  const Body body = one_launch(kernel);
  std::set<std::string> seen;
  for (const char* name : {"delay9", "random", "pct1", "pct2", "pct3"}) {
    const auto strategy = make_strategy(name, 11);
    bool more = true;
    for (int i = 0; i < 3000 && more; ++i) {
      (*strategy)->begin_run();
      if (reset) reset();
      const Run run = world.run(body, **strategy);
      if (!run.verdict.stuck.empty())
        seen.insert("deadlock");
      else if (!run.verdict.clean())
        seen.insert(run.verdict.kind == VerdictKind::failed ? "assertion" : to_string(run.verdict));
      if (run.outdated)
        (*strategy)->start_again();
      else
        more = (*strategy)->end_run(run.decisions);
    }
  }
  return seen.empty() ? "clean" : fmt::format("{}", fmt::join(seen, "+"));
}

enum class Notify { fence, quiet, put_signal, no_fence, fence_other, put_signal_earlier_put, no_wait };

std::string notify_wait(Notify how) {
  return verdict({.ranks = 3, .unit = Bytes{8}}, [how](CoreContext& c) {
    if (c.rank() == Rank{1}) {
      if (how != Notify::no_wait) await(c, 0, 1);
      std::uint64_t row[2] = {};
      c.get(Rank{1}, cell(0), row, shmem::Witness::own());
      require(row[0] == 1);
      require(row[1] == 1);
    } else if (c.rank() == Rank{0}) {
      const bool high = how == Notify::put_signal_earlier_put;
      if (how == Notify::put_signal) {
        c.put_signal(Rank{1}, cell(0), Seen{1, 1}, flag(c, 0), SignalOp::set, 1);
        return;
      }
      put(c, 1, cell(0), 1);
      if (high) {
        c.put_signal(Rank{1}, cell(0) + Bytes{8}, Seen{1}, flag(c, 0), SignalOp::set, 1);
        return;
      }
      put(c, 1, cell(0) + Bytes{8}, 1);
      if (how == Notify::fence || how == Notify::no_wait) c.fence(Rank{1});
      if (how == Notify::fence_other) c.fence(Rank{2});
      if (how == Notify::quiet) c.quiet();
      notify(c, 1, 1);
    }
  });
}

struct Meeting {
  std::int32_t cores = 3;
  std::uint64_t rounds = 2;
  bool quiet = true;
  bool generation = true;
  Compare compare = Compare::at_least;
  bool skip = false;
};

std::string sync_all(const Meeting& how) {
  std::vector<std::uint64_t> arrived(3);
  const bool ours = how.quiet && how.generation && how.compare == Compare::at_least;
  return verdict(
      {.ranks = 2, .cores = how.cores},
      [&](CoreContext& c) {
        if (c.rank() == Rank{1}) return;
        const std::uint64_t me = c.core().index();
        const auto cores = static_cast<std::uint64_t>(how.cores);
        for (std::uint64_t round = 1; round <= how.rounds; ++round) {
          put(c, 1, cell(me), round);
          if (how.skip && me == 0 && round == how.rounds) return;
          arrived[me] = round;
          if (ours) {
            c.sync_all();
          } else {
            const Slot met = c.slots().family("met").at(0, Rank{0});
            if (how.quiet) c.quiet();
            c.signal(Rank{0}, met, SignalOp::add, 1);
            c.wait(met, how.compare, how.generation ? round * cores : cores).ordering_only();
          }
          for (std::uint64_t other = 0; other < cores; ++other) {
            require(arrived[other] >= round);
            require(get(c, 1, cell(other)) >= round);
          }
        }
      },
      [&] { arrived.assign(3, 0); });
}

std::string double_buffer(std::uint64_t slots, std::uint64_t rounds, bool ack) {
  return verdict({}, [=](CoreContext& c) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (c.rank() == Rank{0}) {
        if (ack && round > slots) await(c, 1, round - slots);
        put(c, 1, cell(round % slots), round);
        c.fence(Rank{1});
        notify(c, 1, round);
      } else {
        await(c, 0, round);
        require(get(c, 1, cell(round % slots)) == round);
        if (ack) notify(c, 0, round);
      }
    }
  });
}

std::string lost_notify(bool ack_first) {
  return verdict({}, [ack_first](CoreContext& c) {
    two_pulses(c, ack_first, [](std::uint64_t round, std::uint64_t value) { require(value == round); });
  });
}

/// Kernels of one barrier, and of two where the model's kernel is a dispatch.
std::string barrier(const Profile& profile, std::int32_t ranks, std::int32_t cores = 1, int kernels = 3,
                    bool one_barrier = false) {
  std::vector<std::uint64_t> entered(16);
  return verdict(
      {.ranks = ranks, .cores = cores, .profile = profile},
      [&entered, kernels, one_barrier](CoreContext& c) {
        const auto all = static_cast<std::size_t>(c.ranks() * c.cores());
        std::uint64_t& mine = entered[c.rank().index() * static_cast<std::size_t>(c.cores()) + c.core().index()];
        std::uint64_t count = 0;
        for (int kernel = 0; kernel < kernels; ++kernel) {
          ZeroBufferSync sync(c);
          for (int n = 0; n < (!one_barrier && kernel % 3 == 1 ? 2 : 1); ++n) {
            mine = ++count;
            sync.barrier_all();
            for (std::size_t i = 0; i < all; ++i) require(entered[i] >= count);
          }
        }
      },
      [&entered] { entered.assign(16, 0); });
}

}  // namespace

TEST_CASE("the checker says of the protocols what SPIN says of their models") {
  Profile at_least = kFaithful202607;
  at_least.compare = Compare::at_least;
  Profile by_count = kFaithful202607;
  by_count.barrier_buffer = BarrierBuffer::by_count;
  const std::pair<const char*, std::string> rows[] = {
      {"notify_wait.fence", notify_wait(Notify::fence)},
      {"notify_wait.quiet", notify_wait(Notify::quiet)},
      {"notify_wait.put_signal", notify_wait(Notify::put_signal)},
      {"notify_wait.no_fence", notify_wait(Notify::no_fence)},
      {"notify_wait.fence_other", notify_wait(Notify::fence_other)},
      {"notify_wait.put_signal_earlier_put", notify_wait(Notify::put_signal_earlier_put)},
      {"notify_wait.no_wait", notify_wait(Notify::no_wait)},
      {"sync_all.cores2", sync_all({.cores = 2, .rounds = 3})},
      {"sync_all.cores3", sync_all({.cores = 3, .rounds = 3})},
      {"sync_all.no_quiet", sync_all({.quiet = false})},
      {"sync_all.no_generation", sync_all({.generation = false})},
      {"sync_all.equal", sync_all({.compare = Compare::equal})},
      {"sync_all.skip", sync_all({.skip = true})},
      {"double_buffer.rounds2", double_buffer(2, 2, false)},
      {"double_buffer.rounds3", double_buffer(2, 3, false)},
      {"double_buffer.rounds3_ack", double_buffer(2, 3, true)},
      {"double_buffer.rounds6_ack", double_buffer(2, 6, true)},
      {"double_buffer.single_rounds2", double_buffer(1, 2, false)},
      {"double_buffer.single_rounds3_ack", double_buffer(1, 3, true)},
      {"lost_notify.clear_first", lost_notify(false)},
      {"lost_notify.ack_first", lost_notify(true)},
      {"zero_buffer_barrier.safe_r2", barrier(kSafe, 2)},
      {"zero_buffer_barrier.safe_r3", barrier(kSafe, 3)},
      {"zero_buffer_barrier.safe_r2_c2", barrier(kSafe, 2, 2)},
      {"zero_buffer_barrier.faithful_2026_07_r2", barrier(kFaithful202607, 2)},
      {"zero_buffer_barrier.faithful_2026_07_r3", barrier(kFaithful202607, 3)},
      {"zero_buffer_barrier.faithful_2026_08_r2", barrier(kFaithful202608, 2)},
      {"zero_buffer_barrier.faithful_2026_08_r3", barrier(kFaithful202608, 3)},
      {"zero_buffer_barrier.one_barrier_r2", barrier(kFaithful202607, 2, 1, 5, true)},
      {"zero_buffer_barrier.one_barrier_r3", barrier(kFaithful202607, 3, 1, 5, true)},
      {"zero_buffer_barrier.at_least_r3", barrier(at_least, 3)},
      {"zero_buffer_barrier.by_count_r3", barrier(by_count, 3)},
  };
  // The other rows of the models are variants that no code here has.
  const auto expected = expected_verdicts();
  for (const auto& entry : rows) {
    const std::string row = entry.first;
    const std::string seen = entry.second;
    CAPTURE(row);
    REQUIRE(expected.count(row) == 1);
    CHECK(seen == expected.at(row));
  }
}
