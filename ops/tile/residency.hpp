#pragma once
// May a launch have more programs than there are cores? A program that waits keeps its core, so those that have not begun
// must not be needed by those that run.

#include <cstdint>
#include <optional>
#include <string>

#include "ops/tile/all2all_tasks.hpp"

namespace shmoe::ops {

/// Plays all waits and signals through, with program p of a rank on core p mod `cores`, one after the other. Nothing where
/// all programs end; else who waits for a program that never begins. A slot has one setter and one resetter, so the end
/// does not depend on the order in which cores go on.
std::optional<std::string> missing_program(const All2AllTasks& tasks, const All2AllCrew& crew, Merge merge,
                                           std::int32_t cores);

}  // namespace shmoe::ops
