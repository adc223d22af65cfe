#pragma once
// One rank's view of a communicator's memory: where each member's block is mapped here.

#include <functional>
#include <memory>
#include <vector>

#include "shmem/fabric.hpp"
#include "shmem/layout.hpp"
#include "shmem/records.hpp"
#include "shmem/signal.hpp"

namespace shmoe::shmem {

/// What a wait that has slept for a while knows about itself.
struct SleepingWait {
  const WaitSpec& spec;
  Slot slot;                // the first slot that is not satisfied
  std::uint64_t seen = 0;   // its word
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
  std::vector<std::byte*> mem;            // block of each member's `.mem`
  std::byte* control = nullptr;           // own block in the own `.ctl`
  std::shared_ptr<const BlockMap> map;
  std::shared_ptr<const SlotPlan> slots;
  ControlMap control_map;
  Overseer overseer;                      // may be empty
  /// Pages of own memory that are about to be used for the first time.
  std::function<Result<void>(Offset, Bytes)> commit;  // may be empty
  bool oversubscribed = false;            // more cores in the job than CPUs: waits do not spin
  bool strict = true;                     // writers and ranges are checked at every call
};

}  // namespace shmoe::shmem
