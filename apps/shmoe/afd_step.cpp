#include "apps/shmoe/afd_step.hpp"

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/payload.hpp"
#include "apps/shmoe/timed.hpp"
#include "ops/afd/published.hpp"
#include "shmem/copy.hpp"

namespace shmoe::apps {

namespace {

/// No longer than the batches need; the published ones are 800 MiB.
ops::PublishedSizes published_sizes(const ops::AfdShape& shape) {
  ops::PublishedSizes sizes{.half = {}, .flags = Bytes{4096}};  // flags lie in slots
  const Bytes blocks = Bytes{512} * static_cast<std::uint64_t>(shape.ranks.ranks());
  sizes.half = Bytes{round_up((sizes.flags + blocks + ops::PublishedWindow(shape).end(shape.max_batch)).value(), 4096)};
  return sizes;
}

}  // namespace

ops::AfdShape afd_shape(const MoeShape& shape, const ops::Assignment& ranks, std::int32_t topk) {
  return {.ranks = ranks, .hidden = shape.hidden, .topk = topk, .dtype = shape.dtype, .quant = shape.quant};
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
  shape_.published = published_sizes(shape_);
  const auto at = comm_.allocate(ops::afd_window_bytes(shape_, comm_.profile()));
  if (at) window_ = *at;
  return agree(comm_, "window of the batches", at ? std::nullopt : std::optional{at.error()});
}

void AfdPipeline::fill(AfdStep& step, const Batch& batch) const {
  step.x = attend(payload_, batch, step.rank, step.number);
  step.ids.assign(batch.topk_ids.begin(), batch.topk_ids.end());
  step.scales = scales_of(batch);
  if (step.padded > 0) {
    const auto rows = static_cast<std::size_t>(step.padded);
    const std::size_t pairs = rows * static_cast<std::size_t>(shape_.topk);
    step.x.resize(rows * shape_.row_bytes());
    step.ids.resize(pairs, -1);
    step.scales.resize(pairs);
  }
  step.returned.resize(step.x.size());
}

/// One answer for each pair of a row that is not dropped: every expert rank has all experts.
void AfdPipeline::answer(const AfdStep& step, std::size_t row, std::span<const std::byte> x,
                         std::span<std::byte> answers) const {
  const std::size_t size = shape_.row_bytes();
  const auto topk = static_cast<std::size_t>(shape_.topk);
  for (std::size_t k = 0; k < topk; ++k) {
    const std::int32_t id = step.tables.expert_ids[row * topk + k];
    if (id >= 0) run_expert(Expert{id}, shape_.dtype, x, answers.subspan(k * size, size));
  }
}

/// As e2a in safe would.
void AfdPipeline::add_up(const AfdStep& step, std::size_t row, std::span<const std::byte> answers,
                         std::span<std::byte> sum) const {
  const std::size_t size = shape_.row_bytes();
  const auto topk = static_cast<std::size_t>(shape_.topk);
  std::vector<std::span<const std::byte>> terms;
  std::vector<float> weights;
  for (std::size_t k = 0; k < topk; ++k) {
    if (step.tables.expert_ids[row * topk + k] < 0) continue;
    terms.push_back(answers.subspan(k * size, size));
    weights.push_back(step.tables.expert_scales[row * topk + k]);
  }
  shmem::weighted_row_sum(shape_.dtype, terms, weights, sum);
}

void AfdPipeline::compute(AfdStep& step) {
  const std::size_t size = shape_.row_bytes();
  const std::size_t sent = shape_.sent_row_bytes();
  const std::size_t all = static_cast<std::size_t>(shape_.topk) * size;
  const std::size_t handed = published() ? size : all;
  step.answers.resize(static_cast<std::size_t>(step.tables.rows) * handed);
  executor_->for_each(step.tables.rows, [&](std::int64_t i) {
    const auto row = static_cast<std::size_t>(i);
    std::vector<std::byte> room;
    const float scale = step.tables.row_scales.empty() ? 1.0F : step.tables.row_scales[row];
    const auto x = opened(payload_, std::span{step.expand_x}.subspan(row * sent, sent), scale, room);
    const auto answers = std::span{step.answers}.subspan(row * handed, handed);
    if (!published()) return answer(step, row, x, answers);
    std::vector<std::byte> terms(all);
    answer(step, row, x, terms);
    add_up(step, row, terms, answers);
  });
}

Result<AfdStep> AfdPipeline::run(const Batch& batch, std::int64_t most, std::int64_t number) {
  AfdStep step{.number = number,
               .rank = comm_.rank(),
               .x = {},
               .ids = {},
               .scales = {},
               .returned = {},
               .padded = published() ? most : 0,
               .expand_x = {},
               .answers = {},
               .tables = {}};
  if (auto room = make_room(most); !room) return std::move(room).error();
  if (is_expert()) {
    const std::int64_t rows = published() ? shape_.ranks.served(comm_.rank()) * most : shape_.capacity(comm_.rank());
    step.expand_x.resize(static_cast<std::size_t>(rows) * shape_.sent_row_bytes());
  } else {
    timed(step, AfdStage::attention, [&] { fill(step, batch); });
  }
  const ops::AfdPlace place{.shape = shape_, .window = window_, .signals = signals_};
  const ops::A2eArgs send{
      .place = place, .x = step.x, .expert_ids = step.ids, .scales = step.scales, .expand_x = step.expand_x};
  auto sent = timed(step, AfdStage::a2e, [&] { return ops::a2e(comm_, send, step.tables); });
  if (!sent) return std::move(sent).error();
  if (is_expert()) timed(step, AfdStage::experts, [&] { compute(step); });
  const ops::E2aArgs back{.place = place,
                          .a2e = step.tables,
                          .kind = published() ? ops::Answers::one : ops::Answers::one_each_k,
                          .answers = step.answers,
                          .x = step.returned};
  auto returned = timed(step, AfdStage::e2a, [&] { return ops::e2a(comm_, back); });
  if (!returned) return std::move(returned).error();
  return step;
}

}  // namespace shmoe::apps
