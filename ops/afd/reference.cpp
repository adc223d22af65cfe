#include "ops/afd/reference.hpp"

#include <algorithm>

#include "ops/ep/reference.hpp"

namespace shmoe::ops::reference {

namespace {

std::size_t afd_row_bytes(const AfdProblem& problem) {
  return static_cast<std::size_t>(problem.hidden) * (problem.dtype == DType::fp32 ? 4 : 2);
}

bool active(const AfdBatch& batch, std::size_t row) { return batch.active_mask.empty() || batch.active_mask[row] != 0; }

void append_row(const AfdProblem& problem, const AfdBatch& batch, std::size_t row, AfdReceived& to) {
  const std::size_t size = afd_row_bytes(problem);
  const bool on = active(batch, row);
  to.x_active_mask.push_back(on ? 1 : 0);
  for (std::int64_t k = 0; problem.gate && k < problem.topk; ++k) {
    const std::size_t pair = row * static_cast<std::size_t>(problem.topk) + static_cast<std::size_t>(k);
    to.expert_ids.push_back(on ? batch.expert_ids[pair] : -1);
    to.expert_scales.push_back(on ? batch.scales[pair] : 0.0F);
  }
  if (!on) {
    to.expand_x.insert(to.expand_x.end(), problem.int8 ? static_cast<std::size_t>(problem.hidden) : size, std::byte{0});
    if (problem.int8) to.row_scales.push_back(0);
    return;
  }
  const auto x = std::span<const std::byte>{batch.x}.subspan(row * size, size);
  if (!problem.int8) {
    to.expand_x.insert(to.expand_x.end(), x.begin(), x.end());
    return;
  }
  const Quantised quantised = quantise(problem.dtype, x);
  const auto q = std::as_bytes(std::span{quantised.q});
  to.expand_x.insert(to.expand_x.end(), q.begin(), q.end());
  to.row_scales.push_back(quantised.scale);
}

/// The row of x for row `row` of a batch, whose answers lie at `answer`.
void return_row(const AfdProblem& problem, const AfdBatch& batch, std::size_t row, std::span<const std::byte> answer,
                bool summed, std::span<std::byte> to) {
  if (!active(batch, row)) return;
  if (!summed) {
    std::ranges::copy(answer, to.begin());
    return;
  }
  for (std::int64_t j = 0; j < problem.hidden; ++j) {
    float sum = 0;
    for (std::int64_t k = 0; k < problem.topk; ++k) {
      const std::size_t pair = row * static_cast<std::size_t>(problem.topk) + static_cast<std::size_t>(k);
      if (problem.gate && batch.expert_ids[pair] < 0) continue;
      const float product =
          load(problem.dtype, answer, k * problem.hidden + j) * (problem.gate ? batch.scales[pair] : 1.0F);
      sum += product;
    }
    store(problem.dtype, to, j, sum);
  }
}

}  // namespace

std::int64_t AfdProblem::rows(std::size_t attention_rank) const {
  return static_cast<std::int64_t>(attention[attention_rank].x.size() / afd_row_bytes(*this));
}

std::vector<AfdReceived> received(const AfdProblem& problem) {
  std::vector<AfdReceived> all(static_cast<std::size_t>(problem.experts));
  for (std::size_t a = 0; a < problem.attention.size(); ++a) {
    AfdReceived& to = all[a % all.size()];
    const auto rows = static_cast<std::size_t>(problem.rows(a));
    to.atten_batch_size.push_back(static_cast<std::int32_t>(rows));
    for (std::size_t row = 0; row < rows; ++row) append_row(problem, problem.attention[a], row, to);
  }
  return all;
}

std::vector<std::vector<std::byte>> returned(const AfdProblem& problem,
                                             const std::vector<std::vector<std::byte>>& answers, bool summed) {
  const std::size_t size = afd_row_bytes(problem);
  const std::size_t answer_size = size * (summed ? static_cast<std::size_t>(problem.topk) : 1);
  std::vector<std::size_t> next(answers.size(), 0);  // row of each expert rank
  std::vector<std::vector<std::byte>> all;
  for (std::size_t a = 0; a < problem.attention.size(); ++a) {
    const std::size_t expert = a % answers.size();
    const auto rows = static_cast<std::size_t>(problem.rows(a));
    std::vector<std::byte>& x = all.emplace_back(rows * size);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto answer =
          std::span<const std::byte>{answers[expert]}.subspan((next[expert] + row) * answer_size, answer_size);
      return_row(problem, problem.attention[a], row, answer, summed, std::span{x}.subspan(row * size, size));
    }
    next[expert] += rows;
  }
  return all;
}

}  // namespace shmoe::ops::reference
