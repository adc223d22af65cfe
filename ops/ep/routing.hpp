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

  /// As a new one, in the memory of the old.
  void assign(std::int32_t topk, std::span<const std::int64_t> topk_idx, std::span<const float> weights = {});
  /// As `from`, with each id replaced: id_of(pair, id), pair = t * K + k.
  template <class IdOf>
  void assign(const Routing& from, const IdOf& id_of) {
    topk_ = from.topk_;
    weights_ = from.weights_;
    wide_.resize(from.wide_.size());
    for (std::size_t pair = 0; pair < wide_.size(); ++pair) wide_[pair] = id_of(pair, from.wide_[pair]);
    narrow();
  }

  [[nodiscard]] std::int32_t topk() const { return topk_; }
  [[nodiscard]] std::int64_t tokens() const;
  /// For layout.
  [[nodiscard]] std::span<const std::int64_t> topk_idx() const { return wide_; }
  /// For dispatch and combine. Ids that do not fit become the nearest int32, so that a bad id never turns into a good one.
  [[nodiscard]] std::span<const std::int32_t> topk_idx_i32() const { return narrow_; }
  /// Empty where there are none.
  [[nodiscard]] std::span<const float> weights() const { return weights_; }

 private:
  void narrow();

  std::int32_t topk_;
  std::vector<std::int64_t> wide_;
  std::vector<std::int32_t> narrow_;
  std::vector<float> weights_;
};

}  // namespace shmoe::ops
