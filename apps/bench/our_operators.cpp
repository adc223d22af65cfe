#include "apps/bench/our_operators.hpp"

#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"

namespace shmoe::apps {

Stages OurOperators::stages() const {
  static constexpr const char* kNames[] = {"layout", "notify", "dispatch", "combine"};
  return {kNames, 3};
}

Result<std::unique_ptr<OurOperators>> OurOperators::create(runtime::Communicator& comm, const Workload& workload) {
  const EpShape& shape = workload.shape();
  auto buffers = ops::EpBuffers::allocate(comm, shape.experts, shape.dtype, shape.hidden, shape.quant);
  if (!buffers) return std::move(buffers).error();
  return std::unique_ptr<OurOperators>{new OurOperators(comm, workload, *std::move(buffers))};
}

OurOperators::OurOperators(runtime::Communicator& comm, const Workload& workload, ops::EpBuffers buffers)
    : comm_(&comm), workload_(&workload), buffers_(std::move(buffers)), combined_(workload.x().size()) {}

Result<void> OurOperators::dispatch(StageTimes& times) {
  StageWatch watch(times);
  watch.start();
  auto counted = ops::layout(*comm_, {workload_->routing(), workload_->experts(), buffers_.next_counts()}, layout_);
  if (!counted) return counted;
  watch.done(0);
  auto placed = ops::notify(*comm_, {.layout = layout_, .experts = workload_->experts()}, notify_);
  if (!placed) return placed;
  watch.done(1);
  if (auto room = buffers_.reserve(notify_); !room) return room;
  auto sent = ops::dispatch_normal(*comm_, {.x = workload_->x(),
                                            .dtype = workload_->shape().dtype,
                                            .hidden = workload_->shape().hidden,
                                            .topk_idx = workload_->routing().topk_idx_i32(),
                                            .experts = workload_->experts(),
                                            .layout = layout_,
                                            .notify = notify_,
                                            .recv_x = buffers_.recv_x(),
                                            .capacity = buffers_.capacity(),
                                            .quant = workload_->shape().quant,
                                            .recv_scales = buffers_.recv_scales()});
  watch.done(2);
  return sent;
}

Result<void> OurOperators::combine(StageTimes& times) {
  StageWatch watch(times);
  watch.start();
  auto summed = ops::combine_normal(*comm_, {.expert_out = buffers_.expert_out(),
                                             .capacity = buffers_.capacity(),
                                             .dtype = workload_->shape().dtype,
                                             .hidden = workload_->shape().hidden,
                                             .topk_idx = workload_->routing().topk_idx_i32(),
                                             .weights = workload_->routing().weights(),
                                             .experts = workload_->experts(),
                                             .layout = layout_,
                                             .notify = notify_,
                                             .x = combined_.bytes()});
  watch.done(3);
  return summed;
}

}  // namespace shmoe::apps
