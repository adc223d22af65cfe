#include "apps/shmoe/low_latency_job.hpp"

#include <algorithm>

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/low_latency_step.hpp"
#include "apps/shmoe/moe_check.hpp"

namespace shmoe::apps {
namespace {

class LowLatencyJob {
 public:
  LowLatencyJob(runtime::Communicator& comm, runtime::Communicator& meeting, const MoePlan& plan,
                const RoutingSource& source)
      : comm_(comm),
        meeting_(meeting),
        plan_(plan),
        source_(source),
        experts_(ops::ExpertMap::even(source.experts(), comm.ranks())),
        pipeline_(comm, meeting, plan.shape, experts_),
        recorder_(kLowLatencyPartNames.size()) {}

  Result<std::vector<RankRecord>> run(Offset record) {
    for (std::int64_t number = 0; number < plan_.warmup + plan_.steps; ++number) {
      if (auto done = step(number); !done) return std::move(done).error();
      if (plan_.progress) plan_.progress(number + 1, plan_.warmup + plan_.steps);
    }
    return gather(meeting_, record, recorder_.record());
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
    if (auto agreed = agree(meeting_, "verification", wrong(*done, batches)); !agreed) return agreed;
    recorder_.verified();
    if (number >= plan_.warmup) recorder_.add(figures_of(*done));
    return {};
  }

  [[nodiscard]] std::optional<Error> wrong(const LowLatencyStep& done, const std::vector<Batch>& batches) const {
    auto found = wrong_result(done, plan_.shape, problem_of(batches, experts_));
    if (!found || comm_.profile().handshake || comm_.cores() == 1) return found;
    return std::move(*found).within(
        "as published, the flag of a core says nothing about the rows of another: take --cores 1, or --profile safe");
  }

  runtime::Communicator& comm_;
  runtime::Communicator& meeting_;
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

}  // namespace

Result<MoeReport> run_low_latency_job(runtime::World& world, const MoePlan& plan, Result<RoutingSource> source) {
  const auto comm = operators_of(world);
  if (!comm) return comm.error();
  auto prepared = prepare_low_latency(world.all(), std::move(source));
  const auto fault = prepared ? std::nullopt : std::optional{prepared.error()};
  if (auto ready = agree(world.all(), "preparation", fault); !ready) return std::move(ready).error();
  auto records = LowLatencyJob{**comm, world.all(), plan, prepared->source}.run(prepared->record);
  if (!records) return std::move(records).error();
  MoeReport report = report_of(world, plan, prepared->source, *std::move(records));
  report.stages = {kLowLatencyPartNames.begin(), kLowLatencyPartNames.end()};
  report.send = static_cast<std::size_t>(LowLatencyPart::dispatch);
  report.fetch = static_cast<std::size_t>(LowLatencyPart::combine);
  return report;
}

}  // namespace shmoe::apps
