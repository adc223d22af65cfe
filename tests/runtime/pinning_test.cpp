// A CPU of its own for each core, or nothing and a word about it.

#include "runtime/pinning.hpp"

#include <set>
#include <sstream>
#include <thread>

#include <sched.h>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

std::set<int> cpus_of_this_thread() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) cpus.insert(cpu);
  }
  return cpus;
}

struct Pinned {
  std::vector<std::set<int>> cpus;  // of each core, afterwards
  std::string said;
};

/// On a thread of its own, which is core 0.
Pinned pinned(Pin pin, std::int32_t cores, Rank rank, std::int32_t ranks) {
  Pinned result;
  result.cpus.resize(static_cast<std::size_t>(cores));
  std::thread([&] {
    Config config = Config::defaults();
    config.pin = pin;
    config.cores = cores;
    std::ostringstream text;
    const std::unique_ptr<Grid> grid = std::move(Grid::start(cores, shmem::Crowd{2})).value();
    pin_cores(*grid, config, rank, ranks, Log::to_stream(text, LogLevel::warn, rank));
    grid->run([&](Core core) { result.cpus[core.index()] = cpus_of_this_thread(); });
    result.said = text.str();
  }).join();
  return result;
}

}  // namespace

TEST_CASE("pinning: the order has each CPU that affinity allows once") {
  const auto order = cpus_in_order();
  REQUIRE(order.has_value());
  const std::set<int> allowed = cpus_of_this_thread();
  CHECK(std::set<int>(order->begin(), order->end()) == allowed);
  CHECK(order->size() == allowed.size());
}

TEST_CASE("pinning: 1 to 3 cores of 1 to 3 ranks") {
  const std::vector<int> order = cpus_in_order().value();
  for (std::int32_t cores = 1; cores <= 3; ++cores) {
    for (std::int32_t ranks = 1; ranks <= 3; ++ranks) {
      const bool enough = static_cast<std::size_t>(cores * ranks) <= order.size();
      for (Rank rank{0}; rank.value() < ranks; ++rank) {
        CAPTURE(cores);
        CAPTURE(ranks);
        const Pinned result = pinned(Pin::cores, cores, rank, ranks);
        for (std::size_t core = 0; core < result.cpus.size(); ++core) {
          const std::size_t place = rank.index() * static_cast<std::size_t>(cores) + core;
          CHECK(result.cpus[core] == (enough ? std::set<int>{order[place]} : cpus_of_this_thread()));
        }
        const bool told = result.said.find("nothing is pinned") != std::string::npos;
        CHECK(told == (!enough && rank == Rank{0}));
      }
    }
  }
}

TEST_CASE("pinning: only where it is asked for") {
  const Pinned result = pinned(Pin::none, 2, Rank{0}, 1);
  for (const std::set<int>& cpus : result.cpus) CHECK(cpus == cpus_of_this_thread());
  CHECK(result.said.empty());
}
