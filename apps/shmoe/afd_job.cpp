#include "apps/shmoe/afd_job.hpp"

#include <algorithm>

#include "apps/shmoe/afd_check.hpp"
#include "apps/shmoe/afd_step.hpp"
#include "apps/shmoe/collective.hpp"

namespace shmoe::apps {
namespace {

class AfdJob {
 public:
  AfdJob(runtime::Communicator& comm, const MoePlan& plan, const RoutingSource& source, const ops::Assignment& ranks)
      : comm_(comm),
        plan_(plan),
        source_(source),
        ranks_(ranks),
        pipeline_(comm, plan.shape, ranks, source.topk()),
        recorder_(kAfdStageNames.size()) {}

  Result<std::vector<RankRecord>> run(Offset record) {
    for (std::int64_t number = 0; number < plan_.warmup + plan_.steps; ++number) {
      if (auto done = step(number); !done) return std::move(done).error();
      if (plan_.progress) plan_.progress(number + 1, plan_.warmup + plan_.steps);
    }
    return gather(comm_, record, recorder_.record());
  }

 private:
  Result<void> step(std::int64_t number) {
    std::vector<Batch> batches;
    for (Rank rank{0}; rank.value() < ranks_.attention(); ++rank) {
      batches.push_back(source_.batch(number, rank, ranks_.attention()));
    }
    const std::int64_t most = std::ranges::max_element(batches, {}, &Batch::tokens)->tokens;
    const bool expert = ranks_.is_expert(comm_.rank());
    const Batch own = expert ? Batch{} : batches[comm_.rank().index() - static_cast<std::size_t>(ranks_.experts())];
    auto done = pipeline_.run(own, std::max<std::int64_t>(most, 1), number);
    if (!done) return std::move(done).error();
    const auto wrong = wrong_result(*done, plan_.shape, ranks_, batches);
    if (auto agreed = agree(comm_, "verification", wrong); !agreed) return agreed;
    recorder_.verified();
    if (number < plan_.warmup) return {};
    recorder_.add({.tokens = own.tokens,
                   .rows_sent = own.tokens,
                   .rows_received = expert ? done->tables.rows : 0,
                   .ranks_reached = own.tokens,
                   .times = done->times});
    return {};
  }

  runtime::Communicator& comm_;
  const MoePlan& plan_;
  const RoutingSource& source_;
  const ops::Assignment& ranks_;
  AfdPipeline pipeline_;
  RankRecorder recorder_;
};

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

}  // namespace

Result<MoeReport> run_afd_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source) {
  runtime::Communicator& comm = world.all();
  auto prepared = prepare_afd(comm, plan, std::move(source));
  const auto fault = prepared ? std::nullopt : std::optional{prepared.error()};
  if (auto ready = agree(comm, "preparation", fault); !ready) return std::move(ready).error();
  auto records = AfdJob{comm, plan, prepared->source, prepared->ranks}.run(prepared->record);
  if (!records) return std::move(records).error();
  MoeReport report = report_of(world, plan, prepared->source, *std::move(records));
  report.stages = {kAfdStageNames.begin(), kAfdStageNames.end()};
  report.send = static_cast<std::size_t>(AfdStage::a2e);
  report.fetch = static_cast<std::size_t>(AfdStage::e2a);
  report.expert_ranks = prepared->ranks.experts();
  return report;
}

}  // namespace shmoe::apps
