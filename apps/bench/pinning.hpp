#pragma once
// Which CPUs the ranks may run on.

#include <string>

#include "runtime/communicator.hpp"

namespace shmoe::apps {

/// "pinning: rank 0 on CPU 0, rank 1 on CPU 1"; of many ranks with different CPUs only how many there are.
/// Order:   collective: a barrier of all ranks
/// Errors:  as Communicator::allocate and launch
Result<std::string> pinning_of(runtime::Communicator& comm);

}  // namespace shmoe::apps
