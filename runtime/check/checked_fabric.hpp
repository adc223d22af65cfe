#pragma once
// The Fabric of one core under the checker: every act goes to the weak memory, the race detector, the story, and where
// others can see it, to the scheduler first.

#include <deque>
#include <map>
#include <optional>

#include "runtime/check/memory.hpp"
#include "runtime/check/race.hpp"
#include "runtime/check/scheduler.hpp"
#include "runtime/check/story.hpp"
#include "runtime/diagnosis/verdict.hpp"
#include "shmem/fabric.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime::check {

/// Symmetric heap that the ranks have allocated and not freed.
class HeapRanges {
 public:
  explicit HeapRanges(std::int32_t ranks) : live_(static_cast<std::size_t>(ranks)) {}
  void add(Rank rank, Offset at, Bytes size) { live_[rank.index()][at.value()] = at.value() + size.value(); }
  /// A block, or the end of one whose beginning lies in another by now.
  void remove(Rank rank, Offset at, Bytes size);
  [[nodiscard]] bool covers(Rank rank, Offset at, Bytes size) const;
  void reset() {
    for (auto& ranges : live_) ranges.clear();
  }

 private:
  std::vector<std::map<std::uint64_t, std::uint64_t>> live_;  // first byte -> end
};

/// What all cores of a world share.
struct Machine {
  Memory& memory;
  RaceDetector& races;
  Scheduler& scheduler;
  HeapRanges& heaps;
  bool weak = true;
  bool data_steps = false;
  bool report_races = true;
  bool recording = false;
  Story story = {};
  Verdict verdict = {};  // the first thing that went wrong

  void found(VerdictKind kind, std::string text);
  void found(std::optional<Race> race);
  void tell(Step step) {
    if (recording) story.push_back(std::move(step));
  }
};

class CheckedFabric final : public shmem::Fabric {
 public:
  /// `core` numbers the cores of all ranks.
  CheckedFabric(const shmem::Peers& peers, std::size_t core, Machine& machine)
      : peers_(&peers), core_(core), machine_(&machine) {}

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override;
  void get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) override;
  std::span<const std::byte> open_read(Rank src, Offset at, Bytes size, SourceSite site) override;
  void close_read(Rank src, Offset at, Bytes size, SourceSite site) override;
  std::span<std::byte> open_write(Rank dst, Offset at, Bytes size, SourceSite site) override;
  void close_write(Rank dst, Offset at, Bytes size, SourceSite site) override;
  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override;
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                  std::uint64_t value, SourceSite site) override;
  void fence(Rank dst, SourceSite site) override;
  void quiet(SourceSite site) override;
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override;
  std::optional<shmem::Arrival> test(const shmem::WaitSpec& spec, SourceSite site) override;
  void touch(shmem::Access access, Rank owner, Offset at, Bytes size, SourceSite site) override;
  void actor(const shmem::ActorEvent& event, SourceSite site) override;
  shmem::Time now() override { return machine_->scheduler.now(); }

 private:
  /// A view is served from a copy; what was written into it lands when it closes.
  struct Staged {
    Rank rank;
    Offset at;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] bool silent() const { return machine_->scheduler.ending(); }
  /// Own memory, or all of it where nothing is weak.
  [[nodiscard]] bool immediate(Rank dst) const { return dst == peers_->rank || !machine_->weak; }
  [[nodiscard]] std::size_t channel(Rank dst) const { return machine_->memory.index_of(core_, dst); }
  void check_place(Rank rank, Offset at, Bytes size, SourceSite site) const;
  void visible(Rank owner, Slot slot, SourceSite site);
  void send(Rank dst, Offset to, std::span<const std::byte> from, std::uint32_t group, SourceSite site);
  void notify(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, std::uint32_t group, SourceSite site);
  void read(Rank src, Offset from, std::span<std::byte> to, SourceSite site);
  void saw(const shmem::WaitSpec& spec, std::size_t index, SourceSite site);
  shmem::Arrival arrive(const shmem::WaitSpec& spec, SourceSite site);
  Error interrupted(const shmem::WaitSpec& spec, SourceSite site) const;

  const shmem::Peers* peers_;
  std::size_t core_;
  Machine* machine_;
  std::deque<Staged> reads_;
  std::deque<Staged> writes_;
};

}  // namespace shmoe::runtime::check
