// A launch, its flags and its barriers take nothing from the allocator and, while nobody sleeps, nothing from the kernel.

#include <functional>

#include <sys/syscall.h>
#include <unistd.h>

#include "tests/steady/steady.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using shmoe::test::cost_of_steps;
using shmoe::test::StepCost;

namespace {

/// What operators are made of: handshake, barrier, row, flag, SyncAll.
Result<void> step(Communicator& comm) {
  Result<void> done = comm.launch("every primitive there is", [&](CoreContext& context) {
    ZeroBufferSync sync(context);
    sync.enter(CallCard("step").with("ranks", context.ranks()), std::nullopt);
    const Rank next{(context.rank().value() + 1) % context.ranks()};
    const Rank before{(context.rank().value() + context.ranks() - 1) % context.ranks()};
    const auto event = static_cast<std::uint32_t>(context.core().value());
    const std::uint64_t word = sync.round().value();
    context.put(next, Offset{64 * static_cast<std::uint64_t>(event)}, std::span{&word, 1});
    if (next != context.rank()) {
      sync.set_flag(next, event, 1);
      consume_token(sync.wait_flag(before, event, 1));
    }
    context.sync_all();
    sync.barrier_all();
  });
  return done ? comm.barrier() : done;
}

struct GridShape {
  std::int32_t ranks;
  std::int32_t cores;
};

StepCost cost_of(std::int32_t ranks, std::int32_t cores) {
  return cost_of_steps(ranks, small_config(cores), [](World& world) { return [&world] { return step(world.all()); }; });
}

}  // namespace

TEST_CASE("a count of allocations sees one") {
  const StepCost cost = cost_of_steps(1, small_config(1), [](World&) {
    return []() -> Result<void> {
      const std::function<int()> large = [room = std::array<int, 64>{}] { return room[0]; };
      return large() == 0 ? Result<void>{} : Error{};
    };
  });
  CHECK(cost.allocations == 200);
  CHECK(cost.calls_only_to_wait());
}

TEST_CASE("a watch sees system calls, of every core") {
  if (!shmoe::test::can_watch_calls()) return;
  const StepCost cost = cost_of_steps(2, small_config(3), [](World& world) {
    return [&world] { return world.all().launch("call", [](CoreContext&) { (void)::getppid(); }); };
  });
  CHECK(contains(cost.calls, fmt::format("{} x {}", SYS_getppid, 2 * 3 * 200)));
  CHECK_FALSE(cost.calls_only_to_wait());
}

TEST_CASE("one core that waits for nobody: no allocation and no system call") {
  const StepCost cost = cost_of(1, 1);
  CHECK(cost.allocations == 0);
  CHECK(cost.calls == (shmoe::test::can_watch_calls() ? "none" : "not watched"));
}

TEST_CASE("ranks and cores that wait: no allocation, and system calls only to let others run") {
  for (const GridShape grid : {GridShape{1, 3}, GridShape{3, 1}, GridShape{3, 2}}) {
    CAPTURE(grid.ranks);
    CAPTURE(grid.cores);
    const StepCost cost = cost_of(grid.ranks, grid.cores);
    CAPTURE(cost.calls);
    CHECK(cost.allocations == 0);
    CHECK(cost.calls_only_to_wait());
  }
}
