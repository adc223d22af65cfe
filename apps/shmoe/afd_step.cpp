#include "apps/shmoe/afd_step.hpp"

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/payload.hpp"
#include "apps/shmoe/timed.hpp"
#include "shmem/quantise.hpp"

namespace shmoe::apps {

std::vector<std::byte> attend(const MoeShape& shape, const Batch& batch, Rank rank, std::int64_t number) {
  const std::size_t row = ops::row_bytes(shape.dtype, shape.hidden);
  std::vector<std::byte> x(row * static_cast<std::size_t>(batch.tokens));
  for (std::int64_t token = 0; token < batch.tokens; ++token) {
    fill_token({shape.seed, number, rank, token}, shape.dtype,
               std::span{x}.subspan(row * static_cast<std::size_t>(token), row));
  }
  return x;
}

std::vector<float> scales_of(const Batch& batch) {
  return batch.weights.empty() ? std::vector<float>(batch.topk_ids.size(), 1.0F) : batch.weights;
}

/// All ranks know alike whether room is needed, but one of them may not get it.
Result<void> AfdPipeline::make_room(std::int64_t most) {
  if (most <= shape_.max_batch) return {};
  if (shape_.max_batch > 0) {
    if (auto freed = comm_.free(window_); !freed) return freed;
  }
  shape_.max_batch = most;
  const auto at = comm_.allocate(ops::afd_window_bytes(shape_, comm_.profile()));
  if (at) window_ = *at;
  return agree(comm_, "window of the batches", at ? std::nullopt : std::optional{at.error()});
}

void AfdPipeline::attend(AfdStep& step, const Batch& batch) const {
  step.x = apps::attend(payload_, batch, step.rank, step.number);
  step.ids.assign(batch.topk_ids.begin(), batch.topk_ids.end());
  step.scales = scales_of(batch);
  step.returned.resize(step.x.size());
}

/// Every expert rank has all experts: one answer for each pair that is not dropped.
void AfdPipeline::compute(AfdStep& step) {
  const std::size_t size = shape_.row_bytes();
  const std::size_t sent = shape_.sent_row_bytes();
  const auto topk = static_cast<std::size_t>(shape_.topk);
  step.answers.resize(static_cast<std::size_t>(step.tables.rows) * topk * size);
  executor_->for_each(step.tables.rows, [&](std::int64_t i) {
    const auto row = static_cast<std::size_t>(i);
    auto x = std::span<const std::byte>{step.expand_x}.subspan(row * sent, sent);
    std::vector<std::byte> opened;
    if (shape_.quant == ops::Quant::int8) {
      opened.resize(size);
      shmem::dequantise_row(shape_.dtype, x, step.tables.row_scales[row], opened);
      x = opened;
    }
    for (std::size_t pair = row * topk; pair < (row + 1) * topk; ++pair) {
      if (step.tables.expert_ids[pair] < 0) continue;
      run_expert(Expert{step.tables.expert_ids[pair]}, shape_.dtype, x,
                 std::span{step.answers}.subspan(pair * size, size));
    }
  });
}

Result<AfdStep> AfdPipeline::run(const Batch& batch, std::int64_t most, std::int64_t number) {
  AfdStep step{.number = number,
               .rank = comm_.rank(),
               .x = {},
               .ids = {},
               .scales = {},
               .returned = {},
               .expand_x = {},
               .answers = {},
               .tables = {}};
  if (auto room = make_room(most); !room) return std::move(room).error();
  if (is_expert()) {
    step.expand_x.resize(static_cast<std::size_t>(shape_.capacity(comm_.rank())) * shape_.sent_row_bytes());
  } else {
    timed(step, AfdStage::attention, [&] { attend(step, batch); });
  }
  const ops::AfdPlace place{.shape = shape_, .window = window_, .signals = signals_};
  const ops::A2eArgs send{
      .place = place, .x = step.x, .expert_ids = step.ids, .scales = step.scales, .expand_x = step.expand_x};
  auto sent = timed(step, AfdStage::a2e, [&] { return ops::a2e(comm_, send, step.tables); });
  if (!sent) return std::move(sent).error();
  if (is_expert()) timed(step, AfdStage::experts, [&] { compute(step); });
  const ops::E2aArgs back{.place = place,
                          .a2e = step.tables,
                          .kind = ops::Answers::one_each_k,
                          .answers = step.answers,
                          .x = step.returned};
  auto returned = timed(step, AfdStage::e2a, [&] { return ops::e2a(comm_, back); });
  if (!returned) return std::move(returned).error();
  return step;
}

}  // namespace shmoe::apps
