#include "apps/shmoe/low_latency_job.hpp"

#include "apps/shmoe/job_loop.hpp"
#include "apps/shmoe/low_latency_step.hpp"
#include "apps/shmoe/moe_check.hpp"

namespace shmoe::apps {
namespace {

/// What a rank needs before the first step.
struct LowLatencyPrepared {
  RoutingSource source;
  Offset record;
};

Result<LowLatencyPrepared> prepare_low_latency(runtime::Communicator& comm, Result<RoutingSource> source) {
  if (!source) return std::move(source).error();
  if (!comm.profile().handshake) {
    return Error{
        .code = Errc::invalid_argument,
        .context = fmt::format("--mode low-latency in profile {}: as published, the flags of combine lie over the "
                               "words of the barriers between the steps; take --profile safe, or see the "
                               "published kernels with `shmoe check run published.low_latency`",
                               name_of(comm.profile().id))};
  }
  auto record = comm.allocate(Bytes{sizeof(RankRecord)});
  if (!record) return std::move(record).error();
  return LowLatencyPrepared{*std::move(source), *record};
}

Result<std::vector<RankRecord>> run_low_latency(runtime::Communicator& comm, const MoePlan& plan,
                                                const LowLatencyPrepared& prepared) {
  const auto experts = ops::ExpertMap::even(prepared.source.experts(), comm.ranks());
  LowLatencyPipeline pipeline(comm, plan.shape, experts);
  const std::size_t stages = kLowLatencyPartNames.size();
  return run_steps(comm, plan, stages, prepared.record, [&](std::int64_t number) -> Result<CheckedStep> {
    const std::vector<Batch> batches = batches_of(prepared.source, number, comm.ranks());
    auto done = pipeline.run(batches[comm.rank().index()], most_tokens(batches), number);
    if (!done) return std::move(done).error();
    return CheckedStep{.wrong = wrong_result(*done, plan.shape, problem_of(batches, experts)),
                       .figures = figures_of(*done)};
  });
}

}  // namespace

Result<MoeReport> run_low_latency_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source) {
  runtime::Communicator& comm = world.all();
  auto prepared = prepare_low_latency(comm, std::move(source));
  if (auto ready = all_prepared(comm, prepared); !ready) return std::move(ready).error();
  auto records = run_low_latency(comm, plan, *prepared);
  if (!records) return std::move(records).error();
  MoeReport report = report_of(world, plan, prepared->source, *std::move(records));
  report.stages = {kLowLatencyPartNames.begin(), kLowLatencyPartNames.end()};
  report.send = static_cast<std::size_t>(LowLatencyPart::dispatch);
  report.fetch = static_cast<std::size_t>(LowLatencyPart::combine);
  return report;
}

}  // namespace shmoe::apps
