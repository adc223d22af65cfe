#pragma once
// The shortest story of a failure: of all steps of the run only those without which nobody would understand it.
//
//   waits that never end    the signals and landings of the words they look at, and who saw what
//   races                   the two accesses, the landing, and the signals, fences and waits that link the two cores
//   all else                the last steps

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/check/world.hpp"

namespace shmoe::runtime::check {

/// The steps of a run that matter for its verdict, in order.
std::vector<std::size_t> steps_that_matter(const Run& run, const shmem::SlotPlan& slots, const Shape& shape);

/// The sentence of the verdict, then the steps that matter, one a line. Runs the failure once more.
std::string explain(World& world, const Body& body, const Run& failure);

}  // namespace shmoe::runtime::check
