#pragma once
// The main job where attention and experts have ranks of their own.

#include "apps/shmoe/moe_job.hpp"

namespace shmoe::apps {

/// As run_moe_job; ranks [0, plan.expert_ranks) are expert ranks, the others attention ranks.
///
/// Order:   as run_moe_job
/// Errors:  as run_moe_job; invalid_argument where there is no rank of one kind
Result<MoeReport> run_afd_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source);

}  // namespace shmoe::apps
