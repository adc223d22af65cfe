#include "apps/shmoe/moe_job.hpp"

#include "apps/shmoe/afd_job.hpp"
#include "apps/shmoe/job_loop.hpp"
#include "apps/shmoe/low_latency_job.hpp"
#include "apps/shmoe/moe_check.hpp"

namespace shmoe::apps {
namespace {

/// What a rank needs before the first step.
struct Prepared {
  RoutingSource source;
  ops::EpBuffers buffers;
  Offset record;
};

Result<Prepared> prepare(runtime::Communicator& comm, const MoePlan& plan, Result<RoutingSource> source) {
  if (!source) return std::move(source).error();
  auto buffers =
      ops::EpBuffers::allocate(comm, source->experts(), plan.shape.dtype, plan.shape.hidden, plan.shape.quant);
  if (!buffers) return std::move(buffers).error();
  auto record = comm.allocate(Bytes{sizeof(RankRecord)});
  if (!record) return std::move(record).error();
  return Prepared{*std::move(source), *std::move(buffers), *record};
}

Result<std::vector<RankRecord>> run_normal(runtime::Communicator& comm, const MoePlan& plan, Prepared& prepared) {
  const auto experts = ops::ExpertMap::even(prepared.source.experts(), comm.ranks());
  MoePipeline pipeline(comm, plan.shape, experts, prepared.buffers);
  return run_steps(comm, plan, kStages, prepared.record, [&](std::int64_t number) -> Result<CheckedStep> {
    const std::vector<Batch> batches = batches_of(prepared.source, number, comm.ranks());
    auto done = pipeline.run(batches[comm.rank().index()], number);
    if (!done) return std::move(done).error();
    const Received received{.rows = prepared.buffers.received(done->notify.recv_rows),
                            .scales = prepared.buffers.scales(done->notify.recv_rows)};
    return CheckedStep{.wrong = wrong_result(*done, plan.shape, problem_of(batches, experts), received),
                       .figures = figures_of(*done, prepared.source.topk())};
  });
}

Error no_expert_ranks(MoeMode mode) {
  return {
      .code = Errc::invalid_argument,
      .context = fmt::format("--expert-ranks is for --mode afd: in mode {} every rank holds experts", name_of(mode))};
}

}  // namespace

MoeReport report_of(const runtime::World& world, const MoePlan& plan, const RoutingSource& source,
                    std::vector<RankRecord> records) {
  return {.launcher = {},
          .mode = plan.mode,
          .routing = source.description(),
          .weights = source.weights(),
          .doubt = source.doubt(),
          .profile = std::string{name_of(world.config().profile.id)},
          .weak_seed = world.config().weak_seed,
          .views = world.config().views,
          .links = world.config().links ? world.config().links->name() : std::string{},
          .faults = world.config().faults.faults.empty() ? std::string{} : world.config().faults.name,
          .cores = world.config().cores,
          .experts = source.experts(),
          .topk = source.topk(),
          .shape = plan.shape,
          .steps = plan.steps,
          .warmup = plan.warmup,
          .ranks = std::move(records)};
}

Result<MoeReport> run_moe_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source) {
  if (plan.mode == MoeMode::afd) return run_afd_job(world, plan, std::move(source));
  if (plan.expert_ranks && source) source = no_expert_ranks(plan.mode);
  if (plan.mode == MoeMode::low_latency) return run_low_latency_job(world, plan, std::move(source));
  runtime::Communicator& comm = world.all();
  auto prepared = prepare(comm, plan, std::move(source));
  if (auto ready = all_prepared(comm, prepared); !ready) return std::move(ready).error();
  auto records = run_normal(comm, plan, *prepared);
  if (!records) return std::move(records).error();
  return report_of(world, plan, prepared->source, *std::move(records));
}

}  // namespace shmoe::apps
