#pragma once
// What a kernel body receives: its Context, the SyncAll of its launch, and the block it works on.

#include <memory_resource>
#include <optional>
#include <span>

#include "shmem/context.hpp"
#include "shmem/layout.hpp"
#include "shmem/profile.hpp"

namespace shmoe::runtime {

/// Numbers a communicator; the members of one all use the same number, and no member uses it twice.
using CommunicatorId = Strong<struct CommunicatorIdTag, std::int32_t>;

/// What the cores of one launch share. Cells are per core, so that nothing needs a lock; a SyncAll orders them.
struct Launch {
  std::string_view op;
  CommunicatorId communicator;
  std::int32_t blocks = 1;      // logical cores of this launch
  std::int32_t physical = 1;    // cores that run at the same time
  std::uint64_t sync_base = 0;  // value of the sync-all slot before the launch
  bool strict = true;           // Peers::strict
  // Of a SyncAll: longer than that of other waits, so that the error names the peer a core waits for and not the core.
  std::optional<shmem::Time> sync_limit;
  std::span<std::optional<Error>> faults;  // one a block
};

class CoreContext : public shmem::Context {
 public:
  CoreContext(shmem::Fabric& fabric, const shmem::SlotPlan& slots, const shmem::BlockMap& map, const Profile& profile,
              const Place& place, Launch& launch, std::pmr::memory_resource& workspace)
      : Context(fabric, slots, place), map_(&map), profile_(&profile), launch_(&launch), workspace_(&workspace) {}

  [[nodiscard]] const shmem::BlockMap& map() const { return *map_; }
  [[nodiscard]] const Profile& profile() const { return *profile_; }
  [[nodiscard]] Launch& launch() const { return *launch_; }
  /// Memory for what a kernel needs for itself. This core alone uses it; blocks of up to 4 MiB are kept between launches,
  /// so a call that needs no more than an earlier one allocates nothing.
  [[nodiscard]] std::pmr::memory_resource* workspace() const { return workspace_; }

  /// Barrier over the cores of this rank. Every core of the launch calls it equally often.
  /// Order:   everything any core of this rank sent is complete, and readable by every core, on return.
  /// Errors:  as Context::wait; the deadline is twice the limit of other waits. A broken contract where the launch is larger
  ///          than the physical grid: its later batches could never arrive.
  shmem::Witness sync_all(SourceSite site = SourceSite::here());

 private:
  const shmem::BlockMap* map_;
  const Profile* profile_;
  Launch* launch_;
  std::pmr::memory_resource* workspace_;
  std::uint64_t generation_ = 0;
};

}  // namespace shmoe::runtime
