#include "apps/shmoe/moe_step.hpp"

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/timed.hpp"
#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"

namespace shmoe::apps {

/// All ranks know alike whether room is needed, but one of them may not get it.
Result<void> MoePipeline::make_room(const ops::NotifyTables& notify) {
  if (notify.total_recv_tokens <= buffers_.capacity()) return {};
  const Result<void> reserved = buffers_.reserve(notify);
  return agree(comm_, "receive buffers", reserved ? std::nullopt : std::optional{reserved.error()});
}

/// The barrier at the entry of combine shows the answers to the peers.
void MoePipeline::compute(const MoeStep& step) {
  const std::int64_t rows = step.notify.recv_rows;
  run_experts(*executor_, shape_,
              {.experts = experts_.experts_of(step.rank),
               .counts = step.notify.recv_tokens_per_expert,
               .rows = buffers_.received(rows),
               .scales = buffers_.scales(rows)},
              buffers_.answers(rows));
}

Result<MoeStep> MoePipeline::run(const Batch& batch, std::int64_t number) {
  MoeStep step{.number = number,
               .rank = comm_.rank(),
               .routing = ops::Routing{batch.topk, batch.topk_ids, batch.weights},
               .x = attend(shape_, batch, comm_.rank(), number),
               .layout = {},
               .notify = {},
               .combined = {}};
  step.combined.resize(step.x.size());
  const auto ids = step.routing.topk_idx_i32();
  const Offset counts = buffers_.next_counts();
  const ops::LayoutArgs count{.routing = step.routing, .experts = experts_, .num_tokens_per_expert = counts};
  auto counted = timed(step, Stage::layout, [&] { return ops::layout(comm_, count, step.layout); });
  if (!counted) return std::move(counted).error();
  const ops::NotifyArgs tell{.layout = step.layout, .experts = experts_};
  auto told = timed(step, Stage::notify, [&] { return ops::notify(comm_, tell, step.notify); });
  if (!told) return std::move(told).error();
  if (auto room = make_room(step.notify); !room) return std::move(room).error();
  const ops::DispatchArgs send{.x = step.x,
                               .dtype = shape_.dtype,
                               .hidden = shape_.hidden,
                               .topk_idx = ids,
                               .experts = experts_,
                               .layout = step.layout,
                               .notify = step.notify,
                               .recv_x = buffers_.recv_x(),
                               .capacity = buffers_.capacity(),
                               .quant = shape_.quant,
                               .recv_scales = buffers_.recv_scales()};
  auto sent = timed(step, Stage::dispatch, [&] { return ops::dispatch_normal(comm_, send); });
  if (!sent) return std::move(sent).error();
  timed(step, Stage::experts, [&] { compute(step); });
  const ops::CombineArgs fetch{.expert_out = buffers_.expert_out(),
                               .capacity = buffers_.capacity(),
                               .dtype = shape_.dtype,
                               .hidden = shape_.hidden,
                               .topk_idx = ids,
                               .weights = step.routing.weights(),
                               .experts = experts_,
                               .layout = step.layout,
                               .notify = step.notify,
                               .x = step.combined};
  auto combined = timed(step, Stage::combine, [&] { return ops::combine_normal(comm_, fetch); });
  if (!combined) return std::move(combined).error();
  return step;
}

}  // namespace shmoe::apps
