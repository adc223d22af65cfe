#pragma once
// The worked example of the published specification: 2 ranks, 4 experts, 3 tokens each, K = 2, H = 4.

#include "ops/ep/reference.hpp"

namespace shmoe::test {

inline ops::reference::Problem example_problem() {
  return {.experts = 4,
          .topk = 2,
          .owner = {0, 0, 1, 1},
          .ranks = {{.tokens = 3, .topk_idx = {0, 2, 2, 1, 3, 2}, .weights = {.75F, .25F, .5F, .5F, .625F, .375F}},
                    {.tokens = 3, .topk_idx = {1, 3, 0, 1, 1, 0}, .weights = {.5F, .5F, .25F, .75F, .875F, .125F}}}};
}

inline constexpr std::int64_t kExampleHidden = 4;
inline constexpr std::int32_t kExampleCores = 6;

/// x[r][t][h] = 12 r + 4 t + h + 1
inline std::vector<std::byte> example_tokens(DType dtype, std::int64_t rank) {
  const std::size_t row = static_cast<std::size_t>(kExampleHidden) * size_of(dtype).value();
  std::vector<std::byte> x(3 * row);
  for (std::int64_t i = 0; i < 3 * kExampleHidden; ++i) {
    ops::reference::store(dtype, x, i, static_cast<float>(12 * rank + i + 1));
  }
  return x;
}

}  // namespace shmoe::test
