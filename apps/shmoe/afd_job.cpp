#include "apps/shmoe/afd_job.hpp"

#include <algorithm>

#include "apps/shmoe/afd_check.hpp"
#include "apps/shmoe/afd_step.hpp"
#include "apps/shmoe/job_loop.hpp"

namespace shmoe::apps {
namespace {

/// What a rank needs before the first step.
struct AfdPrepared {
  RoutingSource source;
  ops::Assignment ranks;
  Offset record;
};

Result<AfdPrepared> prepare_afd(runtime::Communicator& comm, const MoePlan& plan, Result<RoutingSource> source) {
  if (!source) return std::move(source).error();
  const std::int32_t experts = plan.expert_ranks.value_or(std::max(comm.ranks() / 2, 1));
  auto ranks = ops::Assignment::of(experts, comm.ranks() - experts);
  if (!ranks) {
    return std::move(ranks).error().within(
        fmt::format("--mode afd with {} ranks: start more ranks, or give fewer --expert-ranks", comm.ranks()));
  }
  auto record = comm.allocate(Bytes{sizeof(RankRecord)});
  if (!record) return std::move(record).error();
  return AfdPrepared{*std::move(source), *ranks, *record};
}

StepFigures figures_of(const AfdStep& step, const Batch& own, bool expert) {
  return {.tokens = own.tokens,
          .rows_sent = own.tokens,
          .rows_received = expert ? step.tables.rows : 0,
          .ranks_reached = own.tokens,
          .times = {step.times.begin(), step.times.end()}};
}

Result<std::vector<RankRecord>> run_afd(runtime::Communicator& comm, const MoePlan& plan, const AfdPrepared& prepared) {
  const ops::Assignment& ranks = prepared.ranks;
  AfdPipeline pipeline(comm, plan.shape, ranks, prepared.source.topk());
  const std::size_t stages = kAfdStageNames.size();
  return run_steps(comm, plan, stages, prepared.record, [&](std::int64_t number) -> Result<CheckedStep> {
    const std::vector<Batch> batches = batches_of(prepared.source, number, ranks.attention());
    const std::int64_t most = std::max<std::int64_t>(most_tokens(batches), 1);
    const bool expert = ranks.is_expert(comm.rank());
    const Batch own = expert ? Batch{} : batches[comm.rank().index() - static_cast<std::size_t>(ranks.experts())];
    auto done = pipeline.run(own, most, number);
    if (!done) return std::move(done).error();
    return CheckedStep{.wrong = wrong_result(*done, plan.shape, ranks, batches),
                       .figures = figures_of(*done, own, expert)};
  });
}

}  // namespace

Result<MoeReport> run_afd_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source) {
  runtime::Communicator& comm = world.all();
  auto prepared = prepare_afd(comm, plan, std::move(source));
  if (auto ready = all_prepared(comm, prepared); !ready) return std::move(ready).error();
  auto records = run_afd(comm, plan, *prepared);
  if (!records) return std::move(records).error();
  MoeReport report = report_of(world, plan, prepared->source, *std::move(records));
  report.stages = {kAfdStageNames.begin(), kAfdStageNames.end()};
  report.send = static_cast<std::size_t>(AfdStage::a2e);
  report.fetch = static_cast<std::size_t>(AfdStage::e2a);
  report.expert_ranks = prepared->ranks.experts();
  return report;
}

}  // namespace shmoe::apps
