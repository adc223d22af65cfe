#include "apps/shmoe/low_latency_job.hpp"

#include <algorithm>

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/low_latency_step.hpp"
#include "apps/shmoe/moe_check.hpp"

namespace shmoe::apps {
namespace {

class LowLatencyJob {
 public:
  LowLatencyJob(runtime::Communicator& comm, const MoePlan& plan, const RoutingSource& source)
      : comm_(comm),
        plan_(plan),
        source_(source),
        experts_(ops::ExpertMap::even(source.experts(), comm.ranks())),
        pipeline_(comm, plan.shape, experts_),
        recorder_(kLowLatencyPartNames.size()) {}

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
    const std::int64_t most = std::ranges::max_element(batches, {}, &Batch::tokens)->tokens;
    auto done = pipeline_.run(batches[comm_.rank().index()], most, number);
    if (!done) return std::move(done).error();
    const auto wrong = wrong_result(*done, plan_.shape, problem_of(batches, experts_));
    if (auto agreed = agree(comm_, "verification", wrong); !agreed) return agreed;
    recorder_.verified();
    if (number >= plan_.warmup) recorder_.add(figures_of(*done));
    return {};
  }

  runtime::Communicator& comm_;
  const MoePlan& plan_;
  const RoutingSource& source_;
  ops::ExpertMap experts_;
  LowLatencyPipeline pipeline_;
  RankRecorder recorder_;
};

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

}  // namespace

Result<MoeReport> run_low_latency_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source) {
  runtime::Communicator& comm = world.all();
  auto prepared = prepare_low_latency(comm, std::move(source));
  const auto fault = prepared ? std::nullopt : std::optional{prepared.error()};
  if (auto ready = agree(comm, "preparation", fault); !ready) return std::move(ready).error();
  auto records = LowLatencyJob{comm, plan, prepared->source}.run(prepared->record);
  if (!records) return std::move(records).error();
  MoeReport report = report_of(world, plan, prepared->source, *std::move(records));
  report.stages = {kLowLatencyPartNames.begin(), kLowLatencyPartNames.end()};
  report.send = static_cast<std::size_t>(LowLatencyPart::dispatch);
  report.fetch = static_cast<std::size_t>(LowLatencyPart::combine);
  return report;
}

}  // namespace shmoe::apps
