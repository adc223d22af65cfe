#pragma once
// What `shmoe check` knows by name.

#include <vector>

#include "runtime/check/program.hpp"

namespace shmoe::apps {

/// In the order of the list; every name once.
std::vector<runtime::check::Program> all_programs();

}  // namespace shmoe::apps
