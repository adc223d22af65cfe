#include "ops/ep/routing.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace shmoe::ops {

Routing::Routing(std::int32_t topk, std::vector<std::int64_t> topk_idx, std::vector<float> weights)
    : topk_(topk), wide_(std::move(topk_idx)), weights_(std::move(weights)) {
  narrow();
}

void Routing::assign(std::int32_t topk, std::span<const std::int64_t> topk_idx, std::span<const float> weights) {
  topk_ = topk;
  wide_.assign(topk_idx.begin(), topk_idx.end());
  weights_.assign(weights.begin(), weights.end());
  narrow();
}

void Routing::narrow() {
  narrow_.resize(wide_.size());
  using Narrow = std::numeric_limits<std::int32_t>;
  std::transform(wide_.begin(), wide_.end(), narrow_.begin(), [](std::int64_t id) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(id, Narrow::min(), Narrow::max()));
  });
}

std::int64_t Routing::tokens() const { return topk_ < 1 ? 0 : static_cast<std::int64_t>(wide_.size()) / topk_; }

}  // namespace shmoe::ops
