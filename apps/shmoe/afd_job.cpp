#include "apps/shmoe/afd_job.hpp"

#include <algorithm>

#include "apps/shmoe/afd_check.hpp"
#include "apps/shmoe/afd_step.hpp"
#include "apps/shmoe/job_loop.hpp"
#include "ops/afd/published.hpp"

namespace shmoe::apps {
namespace {

/// What a rank needs before the first step.
struct AfdPrepared {
  RoutingSource source;
  ops::Assignment ranks;
  Offset record;
};

/// Rows of an expert rank that the published host takes.
constexpr std::int64_t kPublishedRows = 1024;

Error refused(const runtime::Communicator& comm, std::string_view why) {
  return {.code = Errc::invalid_argument,
          .context = fmt::format("--mode afd in profile {}: {}", name_of(comm.profile().id), why)};
}

/// What the published kernels would refuse on some ranks only, or do wrong.
std::optional<Error> published_fault(const runtime::Communicator& comm, const MoePlan& plan,
                                     const ops::Assignment& ranks, std::int32_t topk) {
  if (comm.profile().handshake) return std::nullopt;
  if (comm.cores() < 4) {
    return refused(comm, fmt::format("the published kernels need 4 cores a rank, there are {}: give --cores 4, or take "
                                     "--profile safe",
                                     comm.cores()));
  }
  if (std::string text = ops::published_refusal(afd_shape(plan.shape, ranks, topk), comm); !text.empty()) {
    return refused(comm, text);
  }
  if (ranks.attention() % ranks.experts() == 0) return std::nullopt;
  return refused(comm, fmt::format("{} attention ranks are no multiple of {} expert ranks, and the published e2a would "
                                   "hand back the wrong rows (`shmoe museum explain H15`): change --expert-ranks, or "
                                   "take --profile safe",
                                   ranks.attention(), ranks.experts()));
}

/// Of a step; known to all ranks alike.
std::optional<Error> too_many_rows(const runtime::Communicator& comm, const ops::Assignment& ranks, std::int64_t most) {
  const std::int64_t served = ops::published_ratio(ranks);
  if (comm.profile().handshake || served * most <= kPublishedRows) return std::nullopt;
  return refused(comm,
                 fmt::format("batches of {} tokens are {} rows of an expert rank, the published host takes {}: give "
                             "--tokens {}, or take --profile safe",
                             most, served * most, kPublishedRows, kPublishedRows / served));
}

Result<AfdPrepared> prepare_afd(runtime::Communicator& comm, const MoePlan& plan, Result<RoutingSource> source) {
  if (!source) return std::move(source).error();
  const std::int32_t experts = plan.expert_ranks.value_or(std::max(comm.ranks() / 2, 1));
  auto ranks = ops::Assignment::of(experts, comm.ranks() - experts);
  if (!ranks) {
    return std::move(ranks).error().within(
        fmt::format("--mode afd with {} ranks: start more ranks, or give fewer --expert-ranks", comm.ranks()));
  }
  if (auto fault = published_fault(comm, plan, *ranks, source->topk())) return *std::move(fault);
  auto record = comm.allocate(Bytes{sizeof(RankRecord)});
  if (!record) return std::move(record).error();
  return AfdPrepared{*std::move(source), *ranks, *record};
}

StepFigures figures_of(const AfdStep& step, const Batch& own, bool expert) {
  return {.tokens = own.tokens,
          .rows_sent = expert ? 0 : std::max(own.tokens, step.padded),
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
    if (auto fault = too_many_rows(comm, ranks, most)) return *std::move(fault);
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
  if (!world.config().profile.handshake) {
    report.how = "all batches of a step are as long as the longest, filled up with zeros; the expert ranks add up";
  }
  report.stages = {kAfdStageNames.begin(), kAfdStageNames.end()};
  report.send = static_cast<std::size_t>(AfdStage::a2e);
  report.fetch = static_cast<std::size_t>(AfdStage::e2a);
  report.expert_ranks = prepared->ranks.experts();
  return report;
}

}  // namespace shmoe::apps
