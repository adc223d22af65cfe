#pragma once
// How the puts of a job copy where SHMOE_COPY leaves it open: as one rank measures at the start and tells the others.

#include <string>

#include "runtime/config.hpp"
#include "shmem/copy_calibration.hpp"
#include "shmem/copy_plan.hpp"

namespace shmoe::runtime {

/// Rows that a CPU keeps to itself, and rows that wait for their reader in the cache that all share: on some machines
/// they stay there, on others they come back from memory, and then they had better never gone there.
struct CopyMeasurement {
  Bytes own_bytes;
  Bytes shared_bytes;
  shmem::CopyTimes own;
  shmem::CopyTimes shared;
};

/// Takes some 10 ms.
CopyMeasurement measure_copies();

/// `cores`: of all ranks, which share the last cache.
shmem::CopyPlan copy_plan(const CopyMeasurement& measured, std::int32_t cores);

/// "cached, streaming after 4096 KiB", or "movsb".
std::string to_text(const shmem::CopyPlan& plan);

}  // namespace shmoe::runtime
