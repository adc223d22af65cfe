#pragma once
// The body of real jobs: every member's block is mapped here, so a put is a copy and a signal is a store.

#include "shmem/fabric.hpp"
#include "shmem/peers.hpp"
#include "shmem/wait.hpp"

namespace shmoe::shmem {

/// Order:   a signal is a sequentially consistent store, which orders this core's plain stores before it; streaming
///          stores are ordered by the store fence in fence, quiet and every signal.
class MappedFabric : public Fabric {
 public:
  MappedFabric(const Peers& peers, Core core, Sharing sharing);
  ~MappedFabric() override;

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override;
  void get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) override;
  std::span<const std::byte> open_read(Rank src, Offset at, Bytes size, SourceSite site) override;
  void close_read(Rank src, Offset at, Bytes size, SourceSite site) override;
  std::span<std::byte> open_write(Rank dst, Offset at, Bytes size, SourceSite site) override;
  void close_write(Rank dst, Offset at, Bytes size, SourceSite site) override;
  void signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) override;
  void signal_each(std::span<const Rank> dsts, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) override;
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op, std::uint64_t value,
                  SourceSite site) override;
  void fence(Rank dst, SourceSite site) override;
  void quiet(SourceSite site) override;
  Result<Arrival> wait(const WaitSpec& spec, SourceSite site) override;
  std::optional<Arrival> test(const WaitSpec& spec, SourceSite site) override;
  void touch(Access access, Rank owner, Offset at, Bytes size, SourceSite site) override;
  void actor(const ActorEvent& event, SourceSite site) override;
  Time now() override;

 private:
  [[nodiscard]] LedgerEntry& entry_of(Rank dst, Slot slot, std::uint64_t value) const;
  void expect_turn(Rank dst, Slot slot, std::uint64_t value, SourceSite site) const;
  void write_event(EventKind kind, Event event, SourceSite site);
  void write_ledger(Rank dst, Slot slot, std::uint64_t value, SourceSite site);
  [[nodiscard]] std::byte* place(Rank rank, Offset at, Bytes size, SourceSite site) const;

  const Peers* peers_;
  WaitRecord* record_;
  EventRing* ring_;
  Sharing sharing_;
  Activity activity_;
  std::uint64_t put_bytes_ = 0;  // since this core entered an operator, or was quiet
  std::uint64_t sends_ = 0;      // puts and signals since it was quiet: no event tells of a quiet that ended nothing
  Waiter waiter_;
};

/// Ranks are processes over mapped segments.
class ShmFabric final : public MappedFabric {
 public:
  ShmFabric(const Peers& peers, Core core) : MappedFabric(peers, core, Sharing::processes) {}
};

/// Ranks are threads of one process over plain memory.
class ThreadFabric final : public MappedFabric {
 public:
  ThreadFabric(const Peers& peers, Core core) : MappedFabric(peers, core, Sharing::threads) {}
};

}  // namespace shmoe::shmem
