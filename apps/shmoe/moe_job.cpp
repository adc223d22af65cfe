#include "apps/shmoe/moe_job.hpp"

#include "apps/shmoe/afd_job.hpp"
#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/low_latency_job.hpp"
#include "apps/shmoe/moe_check.hpp"

namespace shmoe::apps {
namespace {

class Job {
 public:
  Job(runtime::Communicator& comm, const MoePlan& plan, const RoutingSource& source, ops::EpBuffers& buffers)
      : comm_(comm),
        plan_(plan),
        source_(source),
        buffers_(buffers),
        experts_(ops::ExpertMap::even(source.experts(), comm.ranks())),
        pipeline_(comm, plan.shape, experts_, buffers),
        recorder_(kStages) {}

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
    for (Rank rank{0}; rank.value() < comm_.ranks(); ++rank) {
      batches.push_back(source_.batch(number, rank, comm_.ranks()));
    }
    auto done = pipeline_.run(batches[comm_.rank().index()], number);
    if (!done) return std::move(done).error();
    const Received received{.rows = buffers_.received(done->notify.recv_rows),
                            .scales = buffers_.scales(done->notify.recv_rows)};
    const auto wrong = wrong_result(*done, plan_.shape, problem_of(batches, experts_), received);
    if (auto agreed = agree(comm_, "verification", wrong); !agreed) return agreed;
    recorder_.verified();
    if (number >= plan_.warmup) recorder_.add(figures_of(*done, source_.topk()));
    return {};
  }

  runtime::Communicator& comm_;
  const MoePlan& plan_;
  const RoutingSource& source_;
  ops::EpBuffers& buffers_;
  ops::ExpertMap experts_;
  MoePipeline pipeline_;
  RankRecorder recorder_;
};

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
  const auto fault = prepared ? std::nullopt : std::optional{prepared.error()};
  if (auto ready = agree(comm, "preparation", fault); !ready) return std::move(ready).error();
  auto records = Job{comm, plan, prepared->source, prepared->buffers}.run(prepared->record);
  if (!records) return std::move(records).error();
  return report_of(world, plan, prepared->source, *std::move(records));
}

}  // namespace shmoe::apps
