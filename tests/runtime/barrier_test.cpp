// The zero-buffer barrier: nobody leaves before all have come, on threads.

#include <doctest/doctest.h>

#include <vector>

#include "runtime/world.hpp"
#include "runtime/zero_buffer_sync.hpp"

using namespace shmoe;
using runtime::Communicator;
using runtime::Config;
using runtime::CoreContext;
using runtime::World;
using runtime::ZeroBufferSync;

namespace {

Config barrier_config(std::int32_t cores) {
  Config config = Config::defaults();
  config.cores = cores;
  config.heap = Bytes{4U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 4;
  config.wait_limit = std::chrono::seconds(20);
  return config;
}

/// Every core of every rank writes its round into every rank's table, then a barrier, then reads all of its own table.
void check_barriers(std::int32_t ranks, std::int32_t cores, std::int32_t rounds) {
  const Result<void> result = World::run_as_threads(ranks, barrier_config(cores), [&](World& world) -> Result<void> {
    Communicator& all = world.all();
    const auto cells = static_cast<std::size_t>(ranks * cores);
    const Result<Offset> table = all.allocate(Bytes{8 * cells});
    if (!table) return table.error();
    for (std::int32_t round = 1; round <= rounds; ++round) {
      std::vector<int> wrong(static_cast<std::size_t>(cores));
      const Result<void> launched = all.launch("test", [&](CoreContext& context) {
        ZeroBufferSync sync(context);
        const auto value = static_cast<std::uint64_t>(round);
        const std::size_t mine = context.rank().index() * static_cast<std::size_t>(cores) + context.core().index();
        for (Rank dst{0}; dst.value() < ranks; ++dst) {
          context.put(dst, *table + Bytes{8 * mine}, std::span<const std::uint64_t>{&value, 1});
        }
        const shmem::Witness everyone = sync.barrier_all();
        std::vector<std::uint64_t> scratch(cells);
        {
          const auto view = context.read(context.rank(), *table, std::span{scratch}, everyone);
          for (const std::uint64_t seen : view.data()) wrong[context.core().index()] += seen != value;
        }
        sync.barrier_all();
      });
      if (!launched) return launched;
      for (const int count : wrong) CHECK(count == 0);
    }
    return {};
  });
  if (!result) FAIL(to_string(result.error()));
}

}  // namespace

TEST_CASE("a barrier keeps every rank and core until all have come") {
  check_barriers(1, 1, 10);
  check_barriers(1, 3, 10);
  check_barriers(2, 1, 200);
  check_barriers(2, 2, 100);
  check_barriers(3, 5, 30);
  check_barriers(7, 2, 20);
}
