#pragma once
// The memory of all ranks under the checker: what has landed, and what is still on its way.
//
//   core (r,c) --put, signal--> channel (r,c)->d --delivery step--> memory of rank d
//
//   W1  a put is one unit, or several of `unit` bytes, so that tearing shows     W2  fence(d): next epoch of that channel
//   W3  quiet waits until the core's channels are empty                          W4  any unit of the oldest epoch lands
//       next; units that overlap keep their order                                W5  a signal is a unit like any other
//   W6  put_signal's signal lands after its own payload                          W7  own memory is written at once
//   W8  a get reads what has landed                                              W9  add is atomic when it lands
//   W10 what a core that died had not sent is gone; what it had sent may still land, or never

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shmem/fabric.hpp"
#include "shmem/thread_memory.hpp"

namespace shmoe::runtime::check {

/// What a unit is to the race detector, carried from issue to landing.
using Stamp = std::uint32_t;

/// One write on its way.
struct Unit {
  std::uint64_t epoch = 0;
  Offset at = {};
  std::uint32_t size = 0;
  std::uint32_t payload = 0;  // first byte in the store of the channel
  bool is_signal = false;
  shmem::SignalOp op = shmem::SignalOp::set;
  std::uint64_t value = 0;
  Slot slot = {};
  std::uint32_t group = 0;  // units of one put_signal; 0: none
  Stamp stamp = 0;
  SourceSite site = {};
};

/// Units from one core to one other rank.
struct Channel {
  std::vector<Unit> units;  // by issue
  std::uint64_t epoch = 0;
  std::uint32_t groups = 0;
  bool dead = false;  // its core has died: what is left may also never land
  std::vector<std::byte> store;

  [[nodiscard]] bool empty() const { return units.empty(); }
  /// Whether unit `index` may land next.
  [[nodiscard]] bool may_land(std::size_t index) const;
};

class Memory {
 public:
  /// `unit`: the largest write that lands in one piece; 0: whole puts do.
  Memory(shmem::ThreadMemory memory, std::int32_t ranks, std::int32_t cores, Bytes unit);

  [[nodiscard]] std::byte* of(Rank rank) const { return memory_.at(rank.index()); }
  /// A look from outside, which orders nothing.
  [[nodiscard]] std::uint64_t word(Rank rank, Offset at) const;

  /// Lands at once.
  void write(Rank owner, Offset at, std::span<const std::byte> from);
  /// Zeroed by reset() whoever writes there.
  void used(Rank owner, Offset at, Bytes size) { journal_.push_back({of(owner) + at.value(), size.value()}); }
  void apply(Rank owner, Offset at, shmem::SignalOp op, std::uint64_t value);

  [[nodiscard]] Channel& channel(std::size_t index) { return channels_[index]; }
  [[nodiscard]] const Channel& channel(std::size_t index) const { return channels_[index]; }
  [[nodiscard]] std::size_t channels() const { return channels_.size(); }
  /// `core`: numbered through all ranks.
  [[nodiscard]] std::size_t index_of(std::size_t core, Rank dst) const {
    return core * static_cast<std::size_t>(ranks_) + dst.index();
  }
  [[nodiscard]] Rank destination(std::size_t channel) const { return Rank{channel % static_cast<std::size_t>(ranks_)}; }
  [[nodiscard]] std::size_t source_core(std::size_t channel) const {
    return channel / static_cast<std::size_t>(ranks_);
  }

  void send(std::size_t channel, Offset to, std::span<const std::byte> from, std::uint32_t group, SourceSite site);
  void send_signal(std::size_t channel, Slot slot, Offset at, shmem::SignalOp op, std::uint64_t value,
                   std::uint32_t group, Stamp stamp, SourceSite site);
  /// The core sends nothing more.
  void die(std::size_t core);
  void drop(std::size_t channel);
  /// Removes the unit and writes it.
  Unit land(std::size_t channel, std::size_t unit);

  /// Whether a unit that overlaps these bytes is still on its way.
  [[nodiscard]] bool on_its_way(Rank owner, Offset at, Bytes size) const;
  [[nodiscard]] bool all_landed(std::size_t core) const;

  /// As at the start: what was written is zeroed, what is on its way is dropped.
  void reset();

 private:
  struct Written {
    std::byte* first;
    std::size_t size;
  };

  shmem::ThreadMemory memory_;
  std::int32_t ranks_;
  std::size_t unit_;
  std::vector<Channel> channels_;
  std::vector<Written> journal_;
};

}  // namespace shmoe::runtime::check
