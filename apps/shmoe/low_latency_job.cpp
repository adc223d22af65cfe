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
  auto record = comm.allocate(Bytes{sizeof(RankRecord)});
  if (!record) return std::move(record).error();
  return LowLatencyPrepared{*std::move(source), *record};
}

/// Of the operators.
Result<runtime::Communicator*> operators_of(runtime::World& world) {
  if (world.config().profile.handshake) return &world.all();
  std::vector<Rank> everyone;
  for (Rank rank{0}; rank.value() < world.ranks(); ++rank) everyone.push_back(rank);
  return world.communicator(runtime::CommunicatorId{1}, everyone);
}

/// What a reader of the published kernel has to know of a wrong row.
std::optional<Error> explained(std::optional<Error> wrong, const runtime::Communicator& comm) {
  if (!wrong || comm.profile().handshake || comm.cores() == 1) return wrong;
  return std::move(*wrong).within(
      "as published, the flag of a core says nothing about the rows of another: take --cores 1, or --profile safe");
}

/// comm: of the operators. meeting: of all that goes on around them.
Result<std::vector<RankRecord>> run_low_latency(runtime::Communicator& comm, runtime::Communicator& meeting,
                                                const MoePlan& plan, const LowLatencyPrepared& prepared) {
  const auto experts = ops::ExpertMap::even(prepared.source.experts(), comm.ranks());
  LowLatencyPipeline pipeline(comm, meeting, plan.shape, experts);
  const std::size_t stages = kLowLatencyPartNames.size();
  return run_steps(meeting, plan, stages, prepared.record, [&](std::int64_t number) -> Result<CheckedStep> {
    const std::vector<Batch> batches = batches_of(prepared.source, number, comm.ranks());
    auto done = pipeline.run(batches[comm.rank().index()], most_tokens(batches), number);
    if (!done) return std::move(done).error();
    auto wrong = wrong_result(*done, plan.shape, problem_of(batches, experts));
    return CheckedStep{.wrong = explained(std::move(wrong), comm), .figures = figures_of(*done)};
  });
}

}  // namespace

Result<MoeReport> run_low_latency_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source) {
  const auto comm = operators_of(world);
  if (!comm) return comm.error();
  auto prepared = prepare_low_latency(world.all(), std::move(source));
  if (auto ready = all_prepared(world.all(), prepared); !ready) return std::move(ready).error();
  auto records = run_low_latency(**comm, world.all(), plan, *prepared);
  if (!records) return std::move(records).error();
  MoeReport report = report_of(world, plan, prepared->source, *std::move(records));
  if (!world.config().profile.handshake) {
    report.how =
        "combine's flags lie over the rounds of barriers (S5), so the operators have a communicator of their own, "
        "and strict mode is off";
  }
  report.stages = {kLowLatencyPartNames.begin(), kLowLatencyPartNames.end()};
  report.send = static_cast<std::size_t>(LowLatencyPart::dispatch);
  report.fetch = static_cast<std::size_t>(LowLatencyPart::combine);
  return report;
}

}  // namespace shmoe::apps
