#include "ops/low_latency/reference.hpp"

#include <cmath>
#include <limits>

namespace shmoe::ops::reference {

namespace {

Input widened_input(const LowLatencyProblem& problem, std::size_t rank) {
  const Input& routed = problem.routed.ranks[rank];
  Input wide{.tokens = routed.tokens, .topk_idx = {}, .weights = {}};
  const std::int64_t topk = problem.routed.topk;
  for (std::int64_t t = 0; t < routed.tokens; ++t) {
    int taking_part = 0;
    for (std::int64_t k = 0; k < topk; ++k) {
      const auto pair = static_cast<std::size_t>(t * topk + k);
      const bool active = problem.active.empty() || problem.active[rank].empty() || problem.active[rank][pair] == 1;
      taking_part += active ? 1 : 0;
      const std::int64_t id = active ? routed.topk_idx[pair] : -1;
      wide.topk_idx.push_back(id == -1 ? -1 : id + problem.shared_ranks);
      wide.weights.push_back(routed.weights.empty() ? 1.0F : routed.weights[pair]);
    }
    for (std::int32_t i = 0; i < problem.shared_experts; ++i) {
      const std::int32_t copies = problem.shared_ranks / problem.shared_experts;
      const std::int64_t copy = i * copies + static_cast<std::int64_t>(rank) % copies;
      wide.topk_idx.push_back(taking_part > 0 ? copy : -1);
      wide.weights.push_back(1.0F);
    }
  }
  return wide;
}

float rounded_to_even(float value) {
  const double below = std::floor(static_cast<double>(value));
  const double rest = static_cast<double>(value) - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0.0);
  return static_cast<float>(up ? below + 1 : below);
}

}  // namespace

Problem widened(const LowLatencyProblem& problem) {
  Problem wide{.experts = problem.shared_ranks + problem.routed.experts,
               .topk = problem.routed.topk + problem.shared_experts,
               .owner = {},
               .ranks = {}};
  for (std::int32_t rank = 0; rank < problem.shared_ranks; ++rank) wide.owner.push_back(rank);
  wide.owner.insert(wide.owner.end(), problem.routed.owner.begin(), problem.routed.owner.end());
  for (std::size_t rank = 0; rank < problem.routed.ranks.size(); ++rank) {
    wide.ranks.push_back(widened_input(problem, rank));
  }
  return wide;
}

std::vector<std::int64_t> inclusive_prefix(const Answer& answer) {
  std::vector<std::int64_t> ends = answer.put_offset;
  const std::size_t ranks = answer.rows.size();
  for (const std::vector<Origin>& rows : answer.rows) {
    for (const Origin& row : rows) {
      ++ends[static_cast<std::size_t>(row.expert) * ranks + static_cast<std::size_t>(row.source)];
    }
  }
  return ends;
}

Quantised quantise(DType dtype, std::span<const std::byte> x, std::span<const float> factors,
                   std::optional<float> static_scale) {
  const std::int64_t columns = static_cast<std::int64_t>(x.size()) / (dtype == DType::fp32 ? 4 : 2);
  std::vector<std::byte> wide(static_cast<std::size_t>(columns) * 4);
  bool finite = true;
  for (std::int64_t j = 0; j < columns; ++j) {
    const float factor = factors.empty() ? 1.0F : factors[static_cast<std::size_t>(j)];
    const float value = load(dtype, x, j) * factor;
    finite = finite && std::isfinite(value);
    store(DType::fp32, wide, j, value);
  }
  if (!static_scale || !finite) return quantise(DType::fp32, wide);
  Quantised row{.q = std::vector<std::int8_t>(static_cast<std::size_t>(columns), 0), .scale = *static_scale};
  for (std::int64_t j = 0; j < columns; ++j) {
    const float value = rounded_to_even(load(DType::fp32, wide, j) / *static_scale);
    const float kept = value > 127.0F ? 127.0F : value < -128.0F ? -128.0F : value;
    row.q[static_cast<std::size_t>(j)] = static_cast<std::int8_t>(kept);
  }
  return row;
}

std::vector<std::byte> combine_with(const Problem& problem, const Answer& answer, std::int64_t rank, DType dtype,
                                    std::int64_t hidden, const ExpertOutput& output, std::span<const std::byte> extra) {
  if (extra.empty()) return combine(problem, answer, rank, dtype, hidden, output);
  // One more pair with weight 1 in each token, whose row is the token's of `extra`.
  Problem longer = problem;
  Answer places = answer;
  const auto me = static_cast<std::size_t>(rank);
  const auto topk = static_cast<std::size_t>(problem.topk);
  const std::size_t row_size = static_cast<std::size_t>(hidden) * (dtype == DType::fp32 ? 4 : 2);
  longer.topk = problem.topk + 1;
  longer.experts = problem.experts + 1;
  longer.owner.push_back(-1);
  const Input& input = problem.ranks[me];
  Input wide{.tokens = input.tokens, .topk_idx = {}, .weights = {}};
  std::vector<std::int64_t> rows;
  for (std::size_t t = 0; t < static_cast<std::size_t>(input.tokens); ++t) {
    for (std::size_t k = 0; k < topk; ++k) {
      wide.topk_idx.push_back(input.topk_idx[t * topk + k]);
      wide.weights.push_back(input.weights.empty() ? 1.0F : input.weights[t * topk + k]);
      rows.push_back(answer.row_of[me][t * topk + k]);
    }
    wide.topk_idx.push_back(problem.experts);
    wide.weights.push_back(1.0F);
    rows.push_back(static_cast<std::int64_t>(t));
  }
  longer.ranks[me] = wide;
  places.row_of[me] = rows;
  return combine(longer, places, rank, dtype, hidden, [&](std::int64_t owner, std::int64_t row) {
    return owner == -1 ? extra.subspan(static_cast<std::size_t>(row) * row_size, row_size) : output(owner, row);
  });
}

}  // namespace shmoe::ops::reference
