#pragma once
// The main job with the operators for few tokens.

#include "apps/shmoe/moe_job.hpp"

namespace shmoe::apps {

/// As run_moe_job, with dispatch_low_latency and combine_low_latency; their slots have to be declared. In a published
/// profile the flags of combine lie over the rounds of barriers, so the operators get a second communicator.
///
/// Order:   as run_moe_job
/// Errors:  as run_moe_job. In a published profile with several cores also a wrong result, since rows of the cores that
///          do not set a rank's flag may come behind it
Result<MoeReport> run_low_latency_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source);

}  // namespace shmoe::apps
