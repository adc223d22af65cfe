#pragma once
// Why nobody can go on, where a job has several communicators.

#include <span>
#include <vector>

#include "runtime/diagnosis/sight.hpp"
#include "runtime/diagnosis/verdict.hpp"

namespace shmoe::runtime {

/// Of ranks that are stuck for ever. A communicator that is stuck by itself says why, in its own ranks, and whoever waits for
/// its members in another one follows. Otherwise ranks wait for each other through several: the verdict names them by world
/// rank.
/// `stuck`, `ended`: by world rank.
Verdict judge_across(std::span<const Sight> sights, const std::vector<bool>& stuck, const std::vector<bool>& ended);

}  // namespace shmoe::runtime
