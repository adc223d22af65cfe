// Faults that nobody has seen before: drawn by a seed, injected into a program of kernels with barriers and flags. The
// verdict, which knows nothing of the plan, names the step that the plan breaks.

#include <random>

#include "runtime/fault_plan.hpp"
#include "tests/runtime/pausing_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

struct Drawn {
  std::int32_t ranks;
  std::int32_t cores;
  const Profile* profile;
  std::string plan;
  std::string cause;
  bool strict = true;
};

/// Two barriers, flags, a barrier, five times.
Result<void> kernels(World& world) {
  for (int step = 0; step < 5; ++step) {
    const auto done = world.all().launch("step", [](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.barrier_all();
      sync.set_all_rank_core_flag(1);
      for (Rank rank{0}; rank.value() < context.ranks(); ++rank) {
        if (rank == context.rank()) continue;
        const auto core = static_cast<std::uint32_t>(context.core().value());
        sync.wait_flag(rank, core, 1).ordering_only();
      }
      sync.barrier_all();
      sync.barrier_all();
    });
    if (!done) return done;
  }
  return {};
}

Drawn draw(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t end) { return static_cast<std::int32_t>(random() % end); };
  Drawn drawn{.ranks = 3 + below(3), .cores = 1 + below(2), .profile = &kSafe, .plan = {}, .cause = {}};
  const std::int32_t rank = below(static_cast<std::uint64_t>(drawn.ranks));
  const char* family = below(2) == 0 ? "barrier" : "flag";
  const std::int32_t launch = 1 + below(5);
  const auto at = [&](std::int32_t occurrence, const std::string& fault) {
    drawn.plan =
        fmt::format("rank {} core 0 in step launch {} signal {} {}: {}", rank, launch, occurrence, family, fault);
  };
  switch (below(6)) {
    case 0:
      at(1, "drop");
      drawn.cause = "missing notify";
      break;
    case 1:
      at(1, fmt::format("to rank {}", rank));
      drawn.cause = "notify to the wrong rank";
      break;
    case 2:
      family = "flag";
      at(1, "value -1");
      drawn.cause = "wrong word";
      break;
    case 3:
      at(1, "slot +1");  // another source's, or another event of the same
      drawn.cause = "slot formula drift";
      drawn.strict = false;
      break;
    case 4:
      at(1, "hold");  // a SyncAll would complete it
      drawn.plan += fmt::format("\nrank {} core 0 in step launch {} quiet *: skip", rank, launch);
      drawn.cause = "missing quiet";
      break;
    default:
      family = "sync_all";
      drawn.cores = 2;
      at(1, "drop");
      drawn.cause = "missing notify";
  }
  return drawn;
}

std::string cause_of(const Drawn& drawn) {
  Config config = small_config(drawn.cores, *drawn.profile);
  config.strict = drawn.strict;
  config.faults = FaultPlan::parse(drawn.plan, "drawn").value();
  for (const std::optional<Error>& outcome : run_ranks(drawn.ranks, config, kernels)) {
    if (!outcome || outcome->code != Errc::deadlock || contains(outcome->context, "gave up: ")) continue;
    const std::string label = "cause: ";
    const auto begin = outcome->context.find(label);
    if (begin == std::string::npos) return "none: " + outcome->context;
    const auto end = outcome->context.find(": ", begin + label.size());
    const std::string cause = outcome->context.substr(begin + label.size(), end - begin - label.size());
    if (cause != drawn.cause) MESSAGE(outcome->context);
    return cause;
  }
  return "no deadlock";
}

}  // namespace

TEST_CASE("cause: of 20 plans that are drawn by a seed, each is named") {
  const std::uint64_t seed = shmoe::test::seed_of_run();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int right = 0;
  for (int i = 0; i < 20; ++i) {
    const Drawn drawn = draw(random);
    CAPTURE(drawn.plan);
    CAPTURE(drawn.ranks);
    CAPTURE(drawn.cores);
    const std::string cause = cause_of(drawn);
    CHECK(cause == drawn.cause);
    right += cause == drawn.cause ? 1 : 0;
  }
  CHECK(right == 20);
}
