#pragma once
// Pauses of random length before every signal and every wait, so that ranks and cores meet in many orders.

#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "shmem/passing_fabric.hpp"
#include "tests/runtime/support.hpp"
#include "tests/seed.hpp"

namespace shmoe::test {

/// The named delay point: pause().
/// Units:   0 to 2 ms, yielding
class PausingFabric final : public shmem::PassingFabric {
 public:
  PausingFabric(std::unique_ptr<shmem::Fabric> next, std::uint64_t seed)
      : PassingFabric(std::move(next)), random_(seed) {}

  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override {
    pause();
    next().signal(dst, slot, op, value, site);
  }
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                  std::uint64_t value, SourceSite site) override {
    pause();
    next().put_signal(dst, to, from, slot, op, value, site);
  }
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override {
    pause();
    return next().wait(spec, site);
  }

 private:
  void pause() {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::microseconds(random_() % 2001);
    while (Clock::now() < end) std::this_thread::yield();
  }

  std::mt19937_64 random_;
};

/// Every core of every rank draws its own pauses.
inline runtime::FabricDecorator pauses(std::uint64_t seed) {
  return [seed](std::unique_ptr<shmem::Fabric> next, Rank rank, Core core) -> std::unique_ptr<shmem::Fabric> {
    const std::uint64_t own = seed * 1'000'003 + rank.index() * shmem::kMaxCores + core.index();
    return std::make_unique<PausingFabric>(std::move(next), own);
  };
}

/// Of the seed of this run, which is printed.
inline runtime::FabricDecorator pauses_of_run() {
  MESSAGE("SHMOE_TEST_SEED=" << seed_of_run());
  return pauses(seed_of_run());
}

/// What a reported case runs with: first none, then those of this run.
inline std::array<runtime::FabricDecorator, 2> without_and_with_pauses() { return {nullptr, pauses_of_run()}; }

}  // namespace shmoe::test
