// Two consecutive barriers with far more cores than CPUs, and with random pauses between any two steps: nobody passes the
// second before all have left the first.

#include <atomic>

#include "tests/runtime/pausing_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

constexpr std::int32_t kRanks = 8;

void check_two_barriers(std::int32_t cores, std::uint32_t rounds, const FabricDecorator& decorate = {}) {
  const auto cells = static_cast<std::size_t>(kRanks * cores);
  std::vector<std::atomic<std::uint32_t>> left_first(cells);
  std::vector<std::atomic<std::uint32_t>> left_second(cells);
  const auto too_early = [](const std::vector<std::atomic<std::uint32_t>>& cores_left, std::uint32_t round) {
    int count = 0;
    for (const auto& left : cores_left) count += left < round ? 1 : 0;
    return count;
  };
  const auto body = [&](World& world) -> Result<void> {
    std::vector<int> wrong(static_cast<std::size_t>(cores));
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      const Result<void> launched = world.all().launch("two barriers", [&](CoreContext& context) {
        const std::size_t me = context.rank().index() * static_cast<std::size_t>(cores) + context.core().index();
        int& mine = wrong[context.core().index()];
        ZeroBufferSync sync(context);
        sync.barrier_all();
        mine += too_early(left_second, round - 1);  // everybody has come, so has left the barriers before
        left_first[me] = round;
        sync.barrier_all();
        mine += too_early(left_first, round);
        left_second[me] = round;
      });
      if (!launched) return launched;
    }
    for (const int count : wrong) CHECK(count == 0);
    return {};
  };
  check_all_well(run_ranks(kRanks, small_config(cores), body, decorate));
}

}  // namespace

TEST_CASE("two consecutive barriers, eight ranks of one core") { check_two_barriers(1, 150); }
TEST_CASE("two consecutive barriers, eight ranks of three cores") { check_two_barriers(3, 40); }
TEST_CASE("two consecutive barriers, with pauses before every signal and every wait") {
  const std::uint64_t seed = shmoe::test::seed_of_run();
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  check_two_barriers(1, 40, shmoe::test::pauses(seed));
  check_two_barriers(3, 10, shmoe::test::pauses(seed));
}
