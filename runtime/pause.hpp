#pragma once
// Holds a core up, for no longer than its job goes on.

#include "shmem/function_ref.hpp"
#include "shmem/peers.hpp"

namespace shmoe::runtime {

/// Of one core, whose record shows it running meanwhile: it is in no wait that anybody could end.
class Pause {
 public:
  Pause(shmem::Fabric& fabric, const shmem::Peers& peers)
      : fabric_(&fabric), abort_(peers.slots->abort().at(0, Rank{0})), me_(peers.rank) {}

  /// Returns at `end`, or soon after the communicator has been given up.
  /// Order:   none.
  void until(shmem::Time end, SourceSite site) const;
  /// The same, or soon after `over` says so.
  void until(shmem::Time end, shmem::FunctionRef<bool()> over, SourceSite site) const;

 private:
  [[nodiscard]] bool given_up(SourceSite site) const;

  shmem::Fabric* fabric_;
  Slot abort_;
  Rank me_;
};

}  // namespace shmoe::runtime
