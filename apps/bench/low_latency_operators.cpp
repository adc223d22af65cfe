#include "apps/bench/low_latency_operators.hpp"

#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"

namespace shmoe::apps {

Stages LowLatencyOperators::stages() const {
  static constexpr const char* kNames[] = {"dispatch", "combine"};
  return {kNames, 1};
}

Result<std::unique_ptr<LowLatencyOperators>> LowLatencyOperators::create(runtime::Communicator& comm,
                                                                         const Workload& workload) {
  const EpShape& shape = workload.shape();
  auto buffers =
      ops::LowLatencyBuffers::allocate(comm, {.capacity = ops::most_rows(workload.experts(), shape.topk, shape.tokens),
                                              .dtype = shape.dtype,
                                              .hidden = shape.hidden});
  if (!buffers) return std::move(buffers).error();
  return std::unique_ptr<LowLatencyOperators>{new LowLatencyOperators(comm, workload, *std::move(buffers))};
}

LowLatencyOperators::LowLatencyOperators(runtime::Communicator& comm, const Workload& workload,
                                         ops::LowLatencyBuffers buffers)
    : comm_(&comm),
      workload_(&workload),
      buffers_(std::move(buffers)),
      half_(&buffers_.next()),
      combined_(workload.x().size()) {}

Result<void> LowLatencyOperators::dispatch(StageTimes& times) {
  StageWatch watch(times);
  watch.start();
  auto sent = ops::dispatch_low_latency(*comm_,
                                        {.x = workload_->x(),
                                         .dtype = workload_->shape().dtype,
                                         .hidden = workload_->shape().hidden,
                                         .expert_ids = workload_->routing().topk_idx_i32(),
                                         .topk = workload_->shape().topk,
                                         .experts = workload_->experts(),
                                         .expand_x = half_->expand_x,
                                         .capacity = buffers_.capacity()},
                                        tables_);
  watch.done(0);
  return sent;
}

Result<void> LowLatencyOperators::combine(StageTimes& times) {
  StageWatch watch(times);
  watch.start();
  auto summed = ops::combine_low_latency(*comm_, {.expert_out = half_->expert_out,
                                                  .capacity = buffers_.capacity(),
                                                  .tables = tables_,
                                                  .expert_scales = workload_->routing().weights(),
                                                  .x = combined_.bytes()});
  watch.done(1);
  return summed;
}

}  // namespace shmoe::apps
