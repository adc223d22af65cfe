#include "apps/shmoe/moe_step.hpp"

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/payload.hpp"
#include "apps/shmoe/timed.hpp"
#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "shmem/quantise.hpp"

namespace shmoe::apps {
namespace {

/// The expert of each received row.
std::vector<Expert> experts_of_rows(const MoeStep& step, const ops::ExpertMap& experts) {
  std::vector<Expert> by_row;
  const auto own = experts.experts_of(step.rank);
  for (std::size_t l = 0; l < own.size(); ++l) {
    by_row.insert(by_row.end(), static_cast<std::size_t>(step.notify.recv_tokens_per_expert[l]), own[l]);
  }
  return by_row;
}

}  // namespace

MoeStep MoePipeline::prepared(const Batch& batch, std::int64_t number) const {
  const std::size_t row = ops::row_bytes(shape_.dtype, shape_.hidden);
  const std::size_t bytes = row * static_cast<std::size_t>(batch.tokens);
  MoeStep step{.number = number,
               .rank = comm_.rank(),
               .routing = ops::Routing{batch.topk, batch.topk_ids, batch.weights},
               .x = std::vector<std::byte>(bytes),
               .layout = {},
               .notify = {},
               .combined = std::vector<std::byte>(bytes)};
  for (std::int64_t token = 0; token < batch.tokens; ++token) {
    fill_token({shape_.seed, number, step.rank, token}, shape_.dtype,
               std::span{step.x}.subspan(row * static_cast<std::size_t>(token), row));
  }
  return step;
}

/// All ranks know alike whether room is needed, but one of them may not get it.
Result<void> MoePipeline::make_room(const ops::NotifyTables& notify) {
  if (notify.total_recv_tokens <= buffers_.capacity()) return {};
  const Result<void> reserved = buffers_.reserve(notify);
  return agree(comm_, "receive buffers", reserved ? std::nullopt : std::optional{reserved.error()});
}

/// No kernel: the cores are idle meanwhile. The barrier at the entry of combine shows the answers to the peers.
void MoePipeline::compute(const MoeStep& step) {
  const std::vector<Expert> by_row = experts_of_rows(step, experts_);
  const std::int64_t rows = step.notify.recv_rows;
  const std::span<std::byte> received = buffers_.received(rows);
  const std::span<float> scales = buffers_.scales(rows);
  const std::span<std::byte> answers = buffers_.answers(rows);
  const std::size_t size = ops::row_bytes(shape_.dtype, shape_.hidden);
  const std::size_t sent_size = ops::row_bytes(shape_.dtype, shape_.hidden, shape_.quant);
  executor_->for_each(rows, [&](std::int64_t i) {
    const auto row = static_cast<std::size_t>(i);
    const auto x = received.subspan(row * sent_size, sent_size);
    const auto y = answers.subspan(row * size, size);
    if (shape_.quant == ops::Quant::none) return run_expert(by_row[row], shape_.dtype, x, y);
    std::vector<std::byte> opened(size);
    shmem::dequantise_row(shape_.dtype, x, scales[row], opened);
    run_expert(by_row[row], shape_.dtype, opened, y);
  });
}

Result<MoeStep> MoePipeline::run(const Batch& batch, std::int64_t number) {
  MoeStep step = prepared(batch, number);
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
