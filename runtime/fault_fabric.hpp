#pragma once
// Injects the faults of a plan into the calls of one core.

#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/fault_plan.hpp"
#include "runtime/pause.hpp"
#include "shmem/passing_fabric.hpp"

namespace shmoe::runtime {

enum class Holding : std::uint8_t;
class WriteChannels;

/// The faults of one rank of a job, and which of them have come to their point. Shared by the fabrics of its cores.
class RankFaults {
 public:
  RankFaults(const FaultPlan& plan, Rank rank);

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] const std::vector<Fault>& faults() const { return faults_; }
  [[nodiscard]] bool empty() const { return faults_.empty(); }

  /// One mark a fault, for one fabric to set; it lives as long as this.
  std::span<std::uint8_t> marks();
  /// Those that no fabric has marked. Not while a core runs.
  [[nodiscard]] std::vector<Fault> missed() const;

 private:
  Rank rank_;
  std::uint64_t seed_;
  std::vector<Fault> faults_;
  std::deque<std::vector<std::uint8_t>> marks_;  // a row a fabric
};

/// Wraps a fabric. Calls within a launch are counted, each fault its own; where several meet one call they act in the order
/// of the plan, but what is lost stays lost. A core that gives up meets no fault any more. A signal that is dropped never
/// was, and one that is misdirected is in the ledger of where it went. Where puts (gets) have faults, no memory is written
/// (read) in place, and where writes are held back, no memory of another rank is written in place.
/// Order:   no more than Fabric promises.
/// Errors:  as the wrapped fabric. A misdirected call is checked like any other, by SHMOE_STRICT too.
class FaultFabric final : public shmem::PassingFabric {
 public:
  /// A fault that redirects to a rank which the communicator does not have is none here.
  FaultFabric(std::unique_ptr<shmem::Fabric> next, std::shared_ptr<RankFaults> faults, const shmem::Peers& peers,
              Core core);
  ~FaultFabric() override;

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override;
  void get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) override;
  std::span<const std::byte> open_read(Rank src, Offset at, Bytes size, SourceSite site) override;
  std::span<std::byte> open_write(Rank dst, Offset at, Bytes size, SourceSite site) override;
  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override;
  void signal_each(std::span<const Rank> dsts, Slot slot, shmem::SignalOp op, std::uint64_t value,
                   SourceSite site) override;
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                  std::uint64_t value, SourceSite site) override;
  void fence(Rank dst, SourceSite site) override;
  void quiet(SourceSite site) override;
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override;
  std::optional<shmem::Arrival> test(const shmem::WaitSpec& spec, SourceSite site) override;
  void actor(const shmem::ActorEvent& event, SourceSite site) override;

 private:
  /// A fault that this core may meet.
  struct Armed {
    const Fault* fault;
    std::uint8_t* mark;
    std::uint64_t launches = 0;  // of its operator
    std::uint64_t calls = 0;     // such, in this launch
    bool here = false;           // this launch is meant
  };
  /// What becomes of a call.
  struct Fate {
    bool lost = false;
    bool twice = false;
    bool late = false;
    Holding holding{};
    std::optional<Rank> receiver;
    std::uint64_t slot = 0;  // added, modulo 2^64
    std::uint64_t value = 0;
    std::optional<std::size_t> bytes;
  };
  struct Signal {
    Rank dst;
    Slot slot;
    shmem::SignalOp op;
    std::uint64_t value;
  };

  [[nodiscard]] bool may_meet(FaultCall call) const;
  [[nodiscard]] bool is_family(const Fault& fault, std::optional<Slot> slot) const;
  Fate meet(FaultCall call, std::optional<Slot> slot, SourceSite site);
  void act(const Fault& fault, Fate& fate, SourceSite site);
  void hold_until_past(const shmem::WaitSpec& spec, SourceSite site);
  [[nodiscard]] bool is_past(const shmem::WaitSpec& spec, SourceSite site);
  [[nodiscard]] bool is_set_again(Rank owner, Slot slot) const;
  void start(std::string_view op);
  void disarm();
  void give_up();
  static Signal altered(const Signal& sent, const Fate& fate);
  void deliver(const Signal& signal, Holding holding, SourceSite site);
  Result<shmem::Arrival> glance(const shmem::WaitSpec& spec, SourceSite site);

  std::shared_ptr<RankFaults> faults_;
  const shmem::Peers* peers_;
  std::shared_ptr<const shmem::SlotPlan> slots_;
  Pause pause_;
  Offset abort_text_;  // whoever writes there gives up, and is left alone from then on
  Rank me_;            // in the communicator
  std::mt19937_64 random_;
  std::vector<Armed> armed_;
  std::unique_ptr<WriteChannels> channels_;  // where the plan holds writes back
};

}  // namespace shmoe::runtime
