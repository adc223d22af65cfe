#pragma once
// A step is steady when it needs, after a few times, nothing from the allocator and nothing from the kernel.

#include <barrier>
#include <cstdint>
#include <string>

#include "tests/runtime/support.hpp"
#include "tests/steady/allocations.hpp"
#include "tests/steady/system_calls.hpp"

namespace shmoe::test {

/// What 200 steps cost that follow on 20 others.
struct StepCost {
  std::uint64_t allocations = 0;  // of all ranks
  std::string calls;              // of all cores of all ranks; "not watched" where that cannot be

  /// No call, or none but those with which a core lets others run.
  [[nodiscard]] bool calls_only_to_wait() const {
    if (calls == "not watched" || calls == "none") return true;
    std::string rest = calls + ", ";
    while (!rest.empty()) {
      const std::string name = rest.substr(0, rest.find(' '));
      if (name != "futex" && name != "futex_waitv" && name != "sched_yield") return false;
      rest.erase(0, rest.find(", ") + 2);
    }
    return true;
  }
};

/// `make(world)` gives the step of a rank, a callable that returns Result<void>.
template <class Make>
StepCost cost_of_steps(std::int32_t ranks, const runtime::Config& config, const Make& make) {
  StepCost cost;
  // A wait that sleeps for long looks for a deadlock, and that does allocate; how long waits are is the machine's affair.
  runtime::Config quiet = config;
  quiet.prove = false;
  std::barrier<> ranks_meet(ranks);
  const bool watched = can_watch_calls();
  runtime::test::check_all_well(runtime::test::run_ranks(ranks, quiet, [&](runtime::World& world) -> Result<void> {
    auto step = make(world);
    const auto steps = [&](int count) -> Result<void> {
      for (int i = 0; i < count; ++i) {
        if (Result<void> done = step(); !done) return done;
      }
      return {};
    };
    const auto on_every_core = [&](void (*act)()) {
      return watched ? world.all().launch("watch", [&](runtime::CoreContext&) { act(); }) : Result<void>{};
    };
    if (Result<void> warm = steps(20); !warm) return warm;
    if (Result<void> on = on_every_core(watch_calls); !on) return on;
    // The ranks meet unwatched: how they do is no part of a step.
    unwatch_calls();
    ranks_meet.arrive_and_wait();
    if (world.rank() == Rank{0}) {
      calls_made();
      cost.allocations = allocations();
    }
    ranks_meet.arrive_and_wait();
    if (watched) watch_calls();
    Result<void> done = steps(200);
    unwatch_calls();
    ranks_meet.arrive_and_wait();
    if (world.rank() == Rank{0}) {
      cost.allocations = allocations() - cost.allocations;
      cost.calls = watched ? calls_made() : "not watched";
    }
    ranks_meet.arrive_and_wait();
    if (Result<void> off = on_every_core(unwatch_calls); !off) return off;
    return done;
  }));
  return cost;
}

}  // namespace shmoe::test
