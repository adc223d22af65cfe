#pragma once
// What the wait records of a communicator say at one moment.

#include <cstdint>
#include <vector>

#include "runtime/diagnosis/communicator_view.hpp"
#include "runtime/diagnosis/sight.hpp"

namespace shmoe::runtime {

/// `epochs`: of each core, in the order of Sight::cores. The view outlives the sight.
Sight sight_of(const CommunicatorView& view, std::vector<std::uint64_t>& epochs);

}  // namespace shmoe::runtime
