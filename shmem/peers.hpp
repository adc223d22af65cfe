#pragma once
// One rank's view of a communicator's memory: where each member's block is mapped here.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shmem/copy_plan.hpp"
#include "shmem/fabric.hpp"
#include "shmem/futex.hpp"
#include "shmem/ladder.hpp"
#include "shmem/layout.hpp"
#include "shmem/meta_window.hpp"
#include "shmem/records.hpp"
#include "shmem/signal.hpp"

namespace shmoe::shmem {

/// What a wait that has slept for a while knows about itself.
struct SleepingWait {
  const WaitSpec& spec;
  Slot slot;               // the first slot that is not satisfied
  std::uint64_t seen = 0;  // its word
  Time waited;
  std::string_view op;
  Round round;
  Core core;
  SourceSite site;
};

/// Asked a few times a second by every sleeping wait. An Error ends the wait.
using Overseer = std::function<std::optional<Error>(const SleepingWait&)>;

struct Peers {
  Rank rank;
  std::string scope;                       // "communicator 2 of world ranks 1 2 3"; empty where ranks are world ranks
  std::vector<std::byte*> mem;             // block of each member's `.mem`
  std::shared_ptr<const MetaWindow> meta;  // its first bytes, side by side; nothing where ranks are threads
  std::byte* control = nullptr;            // own block in the own `.ctl`; none in the checker
  /// That of each member, to be read only. None: nobody's waits can be proven stuck.
  std::vector<std::byte*> controls;
  std::shared_ptr<const BlockMap> map;
  std::shared_ptr<const SlotPlan> slots;
  ControlMap control_map;
  Overseer overseer;  // may be empty
  /// Pages of own memory that are about to be used for the first time.
  std::function<Result<void>(Offset, Bytes)> commit;  // may be empty
  /// Own symmetric memory that is one live block from now on.
  std::function<void(Offset, Bytes)> occupy;  // may be empty
  /// Own symmetric memory that nobody may use any more.
  std::function<void(Offset, Bytes)> release;  // may be empty
  std::optional<Time> wait_limit;              // deadline of waits that bring none, counted from their start
  Crowd crowd;
  Sharing sharing = Sharing::processes;              // of what the members sleep on
  FlagWord flag_word = FlagWord::sequence56_error8;  // of the barriers, for messages
  bool strict = true;                                // writers and signal kinds are checked at every signal
  CopyPlan copy;                                     // of puts
  bool notes = true;  // false: no records, ledger and events, and so no proofs; to measure what they cost
  bool views = true;  // false: no place is ever offered, everything goes through get and put

  /// Where [at, at + size) of a member's block is mapped here.
  [[nodiscard]] std::byte* place(Rank member, Offset at, Bytes size) const {
    const bool near = meta != nullptr && (at + size).value() <= meta->size().value();
    return (near ? meta->of(member) : mem[member.index()]) + at.value();
  }
  [[nodiscard]] std::byte* place(Rank member, Slot slot) const {
    return place(member, slots->offset_of(slot), Bytes{kSlotStride});
  }
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(mem.size()); }
};

/// Does the slot hold more than the one value that this wait is for? A word that only grows never comes back to it.
bool is_overrun(const SleepingWait& wait, const SlotPlan& plan);

/// "rank 2 core 0 in notify round 7 waited 1.5 s at file.cpp:12 for barrier[1] from rank 0 in rank 2's memory to be
/// >= 0x200 (barrier 2), sees 0x100 (barrier 1)"
std::string describe(const SleepingWait& wait, const Peers& peers);

}  // namespace shmoe::shmem
