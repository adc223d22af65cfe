#pragma once
// The row that dispatch sends for a pair: the token as it is, or smoothed and quantised.

#include <cstdint>
#include <optional>
#include <span>

#include "ops/ep/quant.hpp"
#include "ops/scratch.hpp"
#include "runtime/core_context.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

class OutgoingLowLatencyRow {
 public:
  struct Tokens {
    std::span<const std::byte> x;  // [T, H] of dtype
    DType dtype = DType::bf16;
    std::int64_t hidden = 0;
    Quant quant = Quant::none;
    std::span<const float> scales;      // [S + E, H] or none
    std::optional<float> static_scale;  // of every row
    /// The published division by the largest element, without an epsilon: a row of zeros has scale 0.
    bool exact_division = false;
  };

  OutgoingLowLatencyRow(Scratch& scratch, const Tokens& tokens);
  /// Of the scratch.
  static Bytes share(Quant quant, std::int64_t hidden) {
    const std::int64_t columns = quant == Quant::int8 ? hidden : 0;
    return scratch_part<std::byte>(columns) + scratch_part<float>(columns);
  }

  /// `smooth`: which row of the smooth scales. A row is made once and serves all pairs of its token that share it.
  void choose(std::int64_t token, std::int64_t smooth);
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// One fp32, of int8 rows.
  [[nodiscard]] std::span<const float> scale() const { return {&scale_, 1}; }

 private:
  /// In fp32, smoothed where that is asked for.
  std::span<float> widened(std::span<const std::byte> row, std::int64_t smooth);
  void quantise(std::span<const std::byte> row, std::int64_t smooth);

  const Tokens* tokens_;
  std::span<std::byte> quantised_;
  std::span<float> wide_;
  std::int64_t token_ = -1;
  std::int64_t smooth_ = -1;
  std::span<const std::byte> bytes_;
  float scale_ = 0;
};

/// q[j] = x[j] / scale, rounded to the nearest integer, ties to even, and saturated. A row with an infinity or a NaN gives
/// zeros and that instead of the scale, as quantise_row does.
/// Shapes:  x [H] · q [H] of int8
float quantise_static(std::span<const float> x, float scale, std::span<std::byte> q);

/// As published: mult = 127 / largest. A row of zeros, or of numbers so small that mult is infinite, gives zeros and scale
/// 0, where the published bytes are undefined.
/// Shapes:  x [H] · q [H] of int8
float quantise_published(std::span<const float> x, std::span<std::byte> q);

}  // namespace shmoe::ops
