#include "apps/shmoe/low_latency_step.hpp"

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/timed.hpp"
#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"

namespace shmoe::apps {

Result<void> LowLatencyPipeline::replace_buffers(std::int64_t rows) {
  if (buffers_) {
    if (auto freed = buffers_->release(); !freed) return freed;
    buffers_.reset();
  }
  auto buffers = ops::LowLatencyBuffers::allocate(
      comm_, {.capacity = rows, .dtype = shape_.dtype, .hidden = shape_.hidden, .quant = shape_.quant});
  if (!buffers) {
    return std::move(buffers).error().within(fmt::format(
        "room for {} rows, all that any rank can receive, twice: lower --tokens, or raise SHMOE_HEAP", rows));
  }
  buffers_ = *std::move(buffers);
  return {};
}

/// All ranks know alike whether room is needed, but one of them may not get it.
Result<void> LowLatencyPipeline::make_room(std::int32_t topk, std::int64_t most) {
  const std::int64_t rows = ops::most_rows(experts_, topk, most);
  if (buffers_ && rows <= buffers_->capacity()) return {};
  const Result<void> replaced = replace_buffers(rows);
  return agree(meeting_, "receive buffers", replaced ? std::nullopt : std::optional{replaced.error()});
}

/// The flags of combine show the answers to the peers.
void LowLatencyPipeline::compute(const ops::LowLatencyBuffers::Half& half) {
  run_experts(*executor_, shape_,
              {.experts = experts_.experts_of(comm_.rank()),
               .counts = tables_.expert_token_nums,
               .rows = half.received(tables_),
               .scales = half.scales(tables_)},
              half.answers(tables_));
}

Result<LowLatencyStep> LowLatencyPipeline::run(const Batch& batch, std::int64_t most, std::int64_t number) {
  if (auto room = make_room(batch.topk, most); !room) return std::move(room).error();
  LowLatencyStep step{.number = number,
                      .rank = comm_.rank(),
                      .routing = ops::Routing{batch.topk, batch.topk_ids, batch.weights},
                      .x = attend(shape_, batch, comm_.rank(), number),
                      .tables = &tables_,
                      .received = {},
                      .scales = {},
                      .combined = {}};
  step.combined.resize(step.x.size());
  const ops::LowLatencyBuffers::Half& half = buffers_->next();
  const ops::DispatchLowLatencyArgs send{.x = step.x,
                                         .dtype = shape_.dtype,
                                         .hidden = shape_.hidden,
                                         .expert_ids = step.routing.topk_idx_i32(),
                                         .topk = batch.topk,
                                         .experts = experts_,
                                         .expand_x = half.expand_x,
                                         .capacity = buffers_->capacity(),
                                         .quant = shape_.quant,
                                         .dynamic_scales = half.dynamic_scales};
  auto sent = timed(step, LowLatencyPart::dispatch, [&] { return ops::dispatch_low_latency(comm_, send, tables_); });
  if (!sent) return std::move(sent).error();
  step.received = half.received(tables_);
  step.scales = half.scales(tables_);
  timed(step, LowLatencyPart::experts, [&] { compute(half); });
  const ops::CombineLowLatencyArgs fetch{.expert_out = half.expert_out,
                                         .capacity = buffers_->capacity(),
                                         .tables = tables_,
                                         .expert_scales = step.routing.weights(),
                                         .x = step.combined};
  auto combined = timed(step, LowLatencyPart::combine, [&] { return ops::combine_low_latency(comm_, fetch); });
  if (!combined) return std::move(combined).error();
  return step;
}

}  // namespace shmoe::apps
