#pragma once
// The first page of a rank's `.ctl`: by it peers recognise each other, and inspectors find their way.

#include <cstdint>

#include "runtime/job.hpp"

namespace shmoe::runtime {

/// `job`: see ControlHeader.
void write_header(shmem::ControlHeader& header, const JobShape& shape, Rank rank, std::uint64_t job);

/// Errors:  version where it was written by another build, or is not yet whole.
Result<void> check_version(const shmem::ControlHeader& header, Rank rank);
/// Errors:  as check_version; mismatch where it is not of this rank or job.
Result<void> check_header(const shmem::ControlHeader& header, const JobShape& shape, Rank peer);

/// The shape of the job, as one of its ranks has written it.
/// Errors:  as check_version; mismatch where what it says contradicts itself; capacity_exceeded where the job declares more
///          slot families than a header tells.
Result<JobShape> shape_in(const shmem::ControlHeader& header);

}  // namespace shmoe::runtime
