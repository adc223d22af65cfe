#pragma once
// The main job on one rank of a world.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "apps/shmoe/moe_report.hpp"
#include "apps/shmoe/moe_step.hpp"
#include "apps/shmoe/routing_source.hpp"
#include "runtime/world.hpp"

namespace shmoe::apps {

struct MoePlan {
  MoeMode mode = MoeMode::normal;
  std::optional<std::int32_t> expert_ranks = {};  // mode afd; half of the ranks without
  RoutingChoice routing;
  MoeShape shape;
  std::int64_t steps = 20;
  std::int64_t warmup = 2;
  std::function<void(std::int64_t done, std::int64_t of)> progress;  // may be empty
};

/// What all modes report alike.
MoeReport report_of(const runtime::World& world, const MoePlan& plan, const RoutingSource& source,
                    std::vector<RankRecord> records);

/// Every step is checked against the sequential reference on every rank. `source` is what this rank found of
/// `plan.routing`, and may be an error.
///
/// Order:   collective; barriers between the steps
/// Errors:  the same on every rank: what an operator refused, what one rank could not do, or a wrong result (mismatch)
Result<MoeReport> run_moe_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source);

}  // namespace shmoe::apps
