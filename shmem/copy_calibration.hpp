#pragma once
// Measures the ways to copy on this machine, here and now: whether two CPUs share a cache, which decides between them,
// is not to be learnt from any table, and on a virtual machine it changes.

#include "shmem/copy.hpp"
#include "shmem/fabric.hpp"

namespace shmoe::shmem {

struct CopyTimes {
  std::array<Time, kCopyKinds.size()>
      best{};  // of each CopyKind: the copy and the first read on another CPU; zero: not measured

  [[nodiscard]] Time of(CopyKind kind) const { return best[static_cast<std::size_t>(kind)]; }
  /// The fastest; `cached` where nothing is clearly faster.
  [[nodiscard]] CopyKind fastest() const;
};

/// `bytes` at a time. Ends after the round in which `limit` has passed. Where a second CPU or thread cannot be had the
/// copying CPU reads.
CopyTimes calibrate_copy(std::size_t bytes, Time limit);

}  // namespace shmoe::shmem
