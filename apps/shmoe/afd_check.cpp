#include "apps/shmoe/afd_check.hpp"

#include <fmt/format.h>

#include "apps/shmoe/compare_rows.hpp"
#include "apps/shmoe/payload.hpp"
#include "ops/afd/reference.hpp"
#include "ops/ep/reference.hpp"

namespace shmoe::apps {
namespace {

using ops::reference::AfdProblem;
using ops::reference::AfdReceived;

/// The part of a step that one rank has to do with, as a problem of one expert rank.
class AfdCheck {
 public:
  AfdCheck(const AfdStep& step, const MoeShape& shape, const ops::Assignment& ranks, const std::vector<Batch>& batches)
      : step_(step),
        shape_(shape),
        ranks_(ranks),
        batches_(batches),
        row_bytes_(ops::row_bytes(shape.dtype, shape.hidden)) {}

  std::optional<Error> run() { return ranks_.is_expert(step_.rank) ? received() : returned(); }

 private:
  [[nodiscard]] AfdProblem problem_of(const std::vector<Rank>& attention) const {
    AfdProblem problem{.experts = 1,
                       .hidden = shape_.hidden,
                       .topk = batches_.front().topk,
                       .dtype = shape_.dtype,
                       .int8 = shape_.quant == ops::Quant::int8,
                       .attention = {}};
    for (const Rank rank : attention) {
      const Batch& batch = batches_[rank.index() - static_cast<std::size_t>(ranks_.experts())];
      problem.attention.push_back({.x = attend(shape_, batch, rank, step_.number),
                                   .expert_ids = {batch.topk_ids.begin(), batch.topk_ids.end()},
                                   .scales = scales_of(batch),
                                   .active_mask = {}});
      if (step_.padded > 0) pad(problem.attention.back(), problem.topk);
    }
    return problem;
  }

  void pad(ops::reference::AfdBatch& batch, std::int64_t topk) const {
    batch.x.resize(static_cast<std::size_t>(step_.padded) * row_bytes_);
    batch.expert_ids.resize(static_cast<std::size_t>(step_.padded * topk), -1);
    batch.scales.resize(batch.expert_ids.size());
  }

  std::optional<Error> received() {
    std::vector<Rank> served;
    for (std::int32_t i = 0; i < ranks_.served(step_.rank); ++i) served.push_back(ranks_.attention_rank(step_.rank, i));
    const AfdReceived expected = ops::reference::received(problem_of(served)).front();
    const ops::A2eTables& tables = step_.tables;
    if (tables.expert_ids != expected.expert_ids) return wrong("table expert_ids differs");
    if (tables.expert_scales != expected.expert_scales) return wrong("table expert_scales differs");
    if (tables.row_scales != expected.row_scales) return wrong("table row_scales differs");
    if (step_.padded == 0) {  // the published a2e sends neither
      if (tables.atten_batch_size != expected.atten_batch_size) return wrong("table atten_batch_size differs");
      if (tables.x_active_mask != expected.x_active_mask) return wrong("table x_active_mask differs");
    }
    if (step_.expand_x.size() < expected.expand_x.size()) return wrong("too few rows");
    for (std::size_t i = 0; i < expected.expand_x.size(); ++i) {
      if (step_.expand_x[i] == expected.expand_x[i]) continue;
      const std::size_t size = ops::row_bytes(shape_.dtype, shape_.hidden, shape_.quant);
      return wrong(fmt::format("received row {} differs in byte {}", i / size, i % size));
    }
    return std::nullopt;
  }

  std::optional<Error> returned() {
    const AfdProblem problem = problem_of({step_.rank});
    const AfdReceived there = ops::reference::received(problem).front();
    const auto topk = static_cast<std::size_t>(problem.topk);
    std::vector<std::byte> answers(there.expert_ids.size() * row_bytes_);
    for (std::size_t pair = 0; pair < there.expert_ids.size(); ++pair) {
      if (there.expert_ids[pair] < 0) continue;
      run_expert(Expert{there.expert_ids[pair]}, shape_.dtype, opened(there, pair / topk),
                 std::span{answers}.subspan(pair * row_bytes_, row_bytes_));
    }
    const std::vector<std::byte> expected = ops::reference::returned(problem, {answers}, true).front();
    if (step_.returned.size() != expected.size()) return wrong("another number of rows came back");
    for (std::size_t at = 0; at < expected.size(); at += row_bytes_) {
      const auto difference = row_difference(shape_.dtype, std::span{step_.returned}.subspan(at, row_bytes_),
                                             std::span{expected}.subspan(at, row_bytes_));
      if (difference) return wrong(fmt::format("returned row {} {}", at / row_bytes_, *difference));
    }
    return std::nullopt;
  }

  /// A row as the experts compute with it.
  [[nodiscard]] std::vector<std::byte> opened(const AfdReceived& there, std::size_t row) const {
    const std::size_t size = ops::row_bytes(shape_.dtype, shape_.hidden, shape_.quant);
    const auto sent = std::span<const std::byte>{there.expand_x}.subspan(row * size, size);
    if (shape_.quant == ops::Quant::none) return {sent.begin(), sent.end()};
    std::vector<std::byte> x(row_bytes_);
    for (std::size_t column = 0; column < size; ++column) {
      const float value = static_cast<float>(static_cast<std::int8_t>(sent[column])) * there.row_scales[row];
      ops::reference::store(shape_.dtype, x, static_cast<std::int64_t>(column), value);
    }
    return x;
  }

  [[nodiscard]] Error wrong(std::string_view what) const { return wrong_result_of(step_.rank, step_.number, what); }

  const AfdStep& step_;
  const MoeShape& shape_;
  const ops::Assignment& ranks_;
  const std::vector<Batch>& batches_;
  std::size_t row_bytes_;
};

}  // namespace

std::optional<Error> wrong_result(const AfdStep& step, const MoeShape& shape, const ops::Assignment& ranks,
                                  const std::vector<Batch>& batches) {
  return AfdCheck{step, shape, ranks, batches}.run();
}

}  // namespace shmoe::apps
