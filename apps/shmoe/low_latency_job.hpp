#pragma once
// The main job with the operators for few tokens.

#include "apps/shmoe/moe_job.hpp"

namespace shmoe::apps {

/// As run_moe_job, with dispatch_low_latency and combine_low_latency; their slots have to be declared.
///
/// Order:   as run_moe_job
/// Errors:  as run_moe_job; invalid_argument in a published profile, where the flags of combine lie over the words of
///          barriers, which this job needs between its steps
Result<MoeReport> run_low_latency_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source);

}  // namespace shmoe::apps
