#pragma once
// Writes of one core that have been issued and have not landed. Real memory shows every write in order; here one may
// overtake another wherever fence, quiet and put_signal leave that open, as on a network or an accelerator.
//
//   core --put, signal--> channel to rank d --landing--> memory of rank d
//
//   fence(d)     what is issued to d from now on lands behind what lies in the channel
//   quiet        all channels are empty on return
//   put_signal   its signal lands behind its own data
//   overlap      writes that share a byte, or a slot, land as issued

#include <random>
#include <span>
#include <vector>

#include "shmem/fabric.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// How long a write stays in its channel.
enum class Holding : std::uint8_t {
  none,  // until it may land
  weak,  // as drawn: lands with any later call of its core, at the latest when the core has waited a while or leaves
  hold,  // until its core calls quiet
};

/// Data is taken at the call, as every body of Fabric does. What is drawn decides when a weak write lands, which of those
/// that may land does, and whether a put lands as a whole or in two parts. With one seed and the same calls it is the same
/// order, unless a wait of this core has lasted for a while. A signal that stays in a channel is in the ledger as held.
/// Writes to the own rank land at once. shmem::WeakFabric holds back puts alone and lets them go at a fence: what a reader
/// sees too early is then the same in every run, and no wait is for a write that a fence has ordered.
class WriteChannels {
 public:
  WriteChannels(shmem::Fabric& next, const shmem::Peers& peers, Core core, std::uint64_t seed);

  /// Order:   none with what lies in a channel, but where both write one place.
  void put(Rank dst, Offset to, std::span<const std::byte> from, Holding holding, SourceSite site);
  /// Order:   as put; signals to one slot land as issued.
  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, Holding holding, SourceSite site);
  /// Order:   its data, then its signal; else as put.
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                  std::uint64_t value, Holding holding, SourceSite site);
  /// Order:   earlier writes to dst before later ones. Lets none go.
  void fence(Rank dst);
  /// Order:   all writes have landed on return.
  void quiet();
  /// Another call of the core, at which weak writes may land.
  void go_on();
  /// Order:   as Fabric; weak writes may land before, meanwhile, or later.
  /// Errors:  as Fabric.
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site);
  /// Order:   as wait.
  std::optional<shmem::Arrival> test(const shmem::WaitSpec& spec, SourceSite site);
  /// The core leaves the operator: only what is on hold stays.
  void leave();
  /// What has not landed never will, and nothing is held back from now on.
  void give_up();

 private:
  struct Write {
    Rank dst;
    Offset at = {};
    std::uint64_t size = 0;
    std::vector<std::byte> data = {};
    bool is_signal = false;
    Slot slot = {};
    shmem::SignalOp op = shmem::SignalOp::set;
    std::uint64_t value = 0;
    std::uint64_t epoch = 0;
    std::uint64_t group = 0;  // of one put_signal; 0: none
    Holding holding = Holding::none;
    bool told = false;  // counted as held
    SourceSite site = {};
  };

  [[nodiscard]] bool passes(Rank dst, Holding holding) const;
  void issue_data(Rank dst, Offset to, std::span<const std::byte> from, std::uint64_t group, Holding holding,
                  SourceSite site);
  void issue_signal(Write write);
  void issue(Write write);
  [[nodiscard]] bool may_land(std::size_t index) const;
  /// Those that may land now, in the order of issue.
  [[nodiscard]] std::vector<std::size_t> ready(bool on_hold_too) const;
  void land(std::size_t index);
  void land_all(bool on_hold_too);
  /// What nothing holds back lands with the last write that was before it.
  void settle();
  [[nodiscard]] shmem::LedgerEntry* entry_of(const Write& write) const;
  void tell_held(const Write& write) const;
  [[nodiscard]] bool one_in(std::uint64_t cases) { return random_() % cases == 0; }

  shmem::Fabric* next_;
  const shmem::Peers* peers_;
  Core core_;
  std::mt19937_64 random_;
  std::vector<Write> writes_;          // of all channels, in the order of issue
  std::vector<std::uint64_t> epochs_;  // by destination
  std::uint64_t groups_ = 0;
  std::optional<shmem::Time> polls_since_;
  bool given_up_ = false;
};

}  // namespace shmoe::runtime
