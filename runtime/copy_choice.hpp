#pragma once
// How the puts of a job copy: what SHMOE_COPY says, or what one rank measures at the start and tells the others.

#include <string>
#include <string_view>

#include "runtime/config.hpp"
#include "shmem/copy_calibration.hpp"
#include "shmem/copy_plan.hpp"

namespace shmoe::runtime {

/// Takes about 2 ms.
shmem::CopyTimes measure_copies();

/// Of long rows. Measured where the config leaves it open.
shmem::CopyKind copy_kind(const Config& config);

/// Bytes that wait in the shared cache for their reader, of all cores of a job together.
Bytes near_bytes();

/// `measured`: by the rank that measures, as its name. `cores`: of all ranks.
shmem::CopyPlan copy_plan(const Config& config, std::string_view measured, std::int32_t cores);

/// "cached, streaming after 4096 KiB", or "movsb".
std::string to_text(const shmem::CopyPlan& plan);

}  // namespace shmoe::runtime
