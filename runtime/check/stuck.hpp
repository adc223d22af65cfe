#pragma once
// Why nobody can go on: exact, because every core is stopped and nothing is on its way.

#include "runtime/check/scheduler.hpp"
#include "runtime/diagnosis/verdict.hpp"
#include "shmem/signal.hpp"

namespace shmoe::runtime::check {

/// `ranks` x `cores` as the scheduler numbers them.
Verdict judge_stuck(const Scheduler& scheduler, const shmem::SlotPlan& slots, std::int32_t ranks, std::int32_t cores);

}  // namespace shmoe::runtime::check
