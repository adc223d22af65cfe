#pragma once
// The caller's routing: which experts each token selected, and with which weights.
//
//              k = 0   1   2
//   token 0    [  5,  0, -1 ]      -1: this pair is dropped; it is counted nowhere, has no row and adds nothing
//   token 1    [  2,  2,  7 ]      an expert may occur twice: two rows
//
// The published operators take topk_idx as int64 in layout and as int32 in dispatch and combine. Here the caller keeps
// one Routing and hands each operator the form it takes.

#include <cstdint>
#include <span>
#include <vector>

namespace shmoe::ops {

/// Shapes:  topk_idx [T, K] · weights [T, K], or none: every weight is 1; T may be 0
class Routing {
 public:
  /// Errors:  none here: layout reports a length that is no multiple of topk, combine one of the weights that differs
  Routing(std::int32_t topk, std::vector<std::int64_t> topk_idx, std::vector<float> weights = {});

  [[nodiscard]] std::int32_t topk() const { return topk_; }
  [[nodiscard]] std::int64_t tokens() const;
  /// For layout.
  [[nodiscard]] std::span<const std::int64_t> topk_idx() const { return wide_; }
  /// For dispatch and combine. Ids that do not fit become the nearest int32, so that a bad id never turns into a good one.
  [[nodiscard]] std::span<const std::int32_t> topk_idx_i32() const { return narrow_; }
  /// Empty where there are none.
  [[nodiscard]] std::span<const float> weights() const { return weights_; }

 private:
  std::int32_t topk_;
  std::vector<std::int64_t> wide_;
  std::vector<std::int32_t> narrow_;
  std::vector<float> weights_;
};

}  // namespace shmoe::ops
