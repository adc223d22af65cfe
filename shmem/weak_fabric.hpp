#pragma once
// Delayed visibility in real jobs. x86 shows every put in order, which hides a missing fence; here a put may stay behind
// a signal that was sent after it, as on a network or an accelerator.

#include <memory>
#include <random>
#include <vector>

#include "shmem/passing_fabric.hpp"

namespace shmoe::shmem {

/// Wraps a fabric. A put to another rank is held back with probability 3/4, drawn from seed, rank and core, and always where
/// it overlaps one that is. It lands at a fence to its rank, a quiet, an overlapping put_signal, the end of the operator, or
/// once this core has waited or tested for a while: nothing is lost, it is only late. Signals overtake.
/// Order:   no more than Fabric promises.
class WeakFabric final : public PassingFabric {
 public:
  WeakFabric(std::unique_ptr<Fabric> next, Rank me, Core core, std::uint64_t seed);
  ~WeakFabric() override;

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override;
  std::span<std::byte> open_write(Rank dst, Offset at, Bytes size, SourceSite site) override;
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op, std::uint64_t value,
                  SourceSite site) override;
  void fence(Rank dst, SourceSite site) override;
  void quiet(SourceSite site) override;
  Result<Arrival> wait(const WaitSpec& spec, SourceSite site) override;
  std::optional<Arrival> test(const WaitSpec& spec, SourceSite site) override;
  void actor(const ActorEvent& event, SourceSite site) override;

 private:
  struct Held {
    Rank dst;
    Offset to;
    std::vector<std::byte> data;
    SourceSite site;
  };
  void deliver(std::optional<Rank> dst);
  [[nodiscard]] bool overlaps_held(Rank dst, Offset at, std::uint64_t size) const;

  Rank me_;
  std::mt19937_64 random_;
  std::vector<Held> held_;  // in program order
  Time held_since_{0};
};

}  // namespace shmoe::shmem
