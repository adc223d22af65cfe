#include "ops/low_latency/outgoing.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "shmem/number.hpp"
#include "shmem/quantise.hpp"

namespace shmoe::ops {

namespace {

template <class Bits, class Decode>
void widen(std::span<const std::byte> row, std::span<float> wide, const Decode& decode) {
  for (std::size_t j = 0; j < wide.size(); ++j) {
    Bits bits;
    std::memcpy(&bits, row.data() + j * sizeof bits, sizeof bits);
    wide[j] = decode(bits);
  }
}

void widen_row(DType dtype, std::span<const std::byte> row, std::span<float> wide) {
  switch (dtype) {
    case DType::bf16: return widen<std::uint16_t>(row, wide, shmem::bf16_to_float);
    case DType::fp16: return widen<std::uint16_t>(row, wide, shmem::fp16_to_float);
    case DType::fp32: return widen<float>(row, wide, [](float value) { return value; });
  }
}

/// The largest |x|; a NaN where there is one.
float largest_of(std::span<const float> x) {
  float largest = 0;
  for (const float value : x) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

float all_zero(std::span<std::byte> q, float scale) {
  std::fill(q.begin(), q.end(), std::byte{0});
  return scale;
}

std::byte saturated(float value) {
  const float nearest = std::nearbyint(std::clamp(value, -128.0F, 127.0F));
  return static_cast<std::byte>(static_cast<std::int8_t>(nearest));
}

}  // namespace

float quantise_static(std::span<const float> x, float scale, std::span<std::byte> q) {
  const float largest = largest_of(x);
  if (!std::isfinite(largest)) return all_zero(q, largest);
  for (std::size_t j = 0; j < x.size(); ++j) q[j] = saturated(x[j] / scale);
  return scale;
}

float quantise_published(std::span<const float> x, std::span<std::byte> q) {
  const float largest = largest_of(x);
  if (!std::isfinite(largest)) return all_zero(q, largest);
  const float mult = 127.0F / largest;
  if (std::isinf(mult)) return all_zero(q, 0.0F);
  for (std::size_t j = 0; j < x.size(); ++j) q[j] = saturated(x[j] * mult);
  return 1.0F / mult;
}

OutgoingLowLatencyRow::OutgoingLowLatencyRow(Scratch& scratch, const Tokens& tokens)
    : tokens_(&tokens),
      quantised_(scratch.take<std::byte>(tokens.quant == Quant::int8 ? tokens.hidden : 0)),
      wide_(scratch.take<float>(tokens.quant == Quant::int8 ? tokens.hidden : 0)) {}

void OutgoingLowLatencyRow::choose(std::int64_t token, std::int64_t smooth) {
  if (tokens_->scales.empty()) smooth = 0;
  if (token == token_ && smooth == smooth_) return;
  token_ = token;
  smooth_ = smooth;
  const std::uint64_t size = row_bytes(tokens_->dtype, tokens_->hidden);
  bytes_ = tokens_->x.subspan(static_cast<std::uint64_t>(token) * size, size);
  if (tokens_->quant == Quant::int8) quantise(bytes_, smooth);
}

std::span<float> OutgoingLowLatencyRow::widened(std::span<const std::byte> row, std::int64_t smooth) {
  const auto columns = static_cast<std::size_t>(tokens_->hidden);
  widen_row(tokens_->dtype, row, wide_);
  if (tokens_->scales.empty()) return wide_;
  const auto factors = tokens_->scales.subspan(static_cast<std::size_t>(smooth) * columns, columns);
  for (std::size_t j = 0; j < columns; ++j) wide_[j] *= factors[j];
  return wide_;
}

void OutgoingLowLatencyRow::quantise(std::span<const std::byte> row, std::int64_t smooth) {
  bytes_ = quantised_;
  if (tokens_->static_scale) {
    scale_ = quantise_static(widened(row, smooth), *tokens_->static_scale, quantised_);
  } else if (tokens_->exact_division) {
    scale_ = quantise_published(widened(row, smooth), quantised_);
  } else if (tokens_->scales.empty()) {
    scale_ = shmem::quantise_row(tokens_->dtype, row, quantised_);
  } else {
    scale_ = shmem::quantise_row(DType::fp32, std::as_bytes(widened(row, smooth)), quantised_);
  }
}

}  // namespace shmoe::ops
