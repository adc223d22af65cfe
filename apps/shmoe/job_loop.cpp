#include "apps/shmoe/job_loop.hpp"

#include <algorithm>

namespace shmoe::apps {

std::vector<Batch> batches_of(const RoutingSource& source, std::int64_t number, std::int32_t ranks) {
  std::vector<Batch> batches;
  for (Rank rank{0}; rank.value() < ranks; ++rank) batches.push_back(source.batch(number, rank, ranks));
  return batches;
}

std::int64_t most_tokens(const std::vector<Batch>& batches) {
  return std::ranges::max_element(batches, {}, &Batch::tokens)->tokens;
}

Result<std::vector<RankRecord>> run_steps(runtime::Communicator& comm, const MoePlan& plan, std::size_t stages,
                                          Offset record, const RunStep& step) {
  RankRecorder recorder(stages);
  const std::int64_t steps = plan.warmup + plan.steps;
  for (std::int64_t number = 0; number < steps; ++number) {
    auto done = step(number);
    if (!done) return std::move(done).error();
    if (auto agreed = agree(comm, "verification", done->wrong); !agreed) return std::move(agreed).error();
    recorder.verified();
    if (number >= plan.warmup) recorder.add(done->figures);
    if (plan.progress) plan.progress(number + 1, steps);
  }
  return gather(comm, record, recorder.record());
}

}  // namespace shmoe::apps
