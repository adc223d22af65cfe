#include "shmem/quantise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "shmem/number.hpp"
#include "shmem/result.hpp"

// The targets that copy.cpp leaves out, which nobody has tried; those CPUs run NEON or the portable body.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// Everything between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE is compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shmem/quantise.cpp"  // NOLINT(bugprone-suspicious-include)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef SHMOE_SHMEM_QUANTISE_ONCE
#define SHMOE_SHMEM_QUANTISE_ONCE

namespace shmoe::shmem::detail {

/// One row after the checks; columns are counted in elements.
struct QuantRow {
  const std::byte* x;
  std::size_t columns;
  std::byte* q;
};

template <class T>
inline T load_bits(const std::byte* row, std::size_t column) {
  T bits;
  std::memcpy(&bits, row + column * sizeof bits, sizeof bits);
  return bits;
}

/// The bits of |x| of a format grow with |x|: below every finite number, then infinity, then the NaNs.
struct QuantBf16 {
  using Bits = std::uint16_t;
  static constexpr Bits kMagnitude = 0x7FFF;
  static float decode(Bits bits) { return bf16_to_float(bits); }
};
struct QuantFp16 {
  using Bits = std::uint16_t;
  static constexpr Bits kMagnitude = 0x7FFF;
  static float decode(Bits bits) { return fp16_to_float(bits); }
};
struct QuantFp32 {
  using Bits = std::uint32_t;
  static constexpr Bits kMagnitude = 0x7FFF'FFFF;
  static float decode(Bits bits) { return std::bit_cast<float>(bits); }
};

/// The columns from `first` on, one at a time.
template <class Format>
typename Format::Bits largest_of_columns(const QuantRow& row, std::size_t first, typename Format::Bits largest) {
  for (std::size_t column = first; column < row.columns; ++column) {
    const auto bits = load_bits<typename Format::Bits>(row.x, column);
    largest = std::max(largest, static_cast<typename Format::Bits>(bits & Format::kMagnitude));
  }
  return largest;
}

template <class Format>
void scale_columns(const QuantRow& row, std::size_t first, float mult) {
  for (std::size_t column = first; column < row.columns; ++column) {
    const float scaled = Format::decode(load_bits<typename Format::Bits>(row.x, column)) * mult;
    const auto rounded = static_cast<std::int8_t>(std::nearbyint(scaled));
    std::memcpy(row.q + column, &rounded, 1);
  }
}

/// What is left of a row that a number cannot scale.
inline float give_up(const QuantRow& row, float largest) {
  if (row.columns > 0) std::memset(row.q, 0, row.columns);
  return std::isnan(largest) ? std::numeric_limits<float>::quiet_NaN() : largest;
}

inline float multiplier(float largest) { return 127.0F / (largest + 1e-12F); }

}  // namespace shmoe::shmem::detail

#endif  // SHMOE_SHMEM_QUANTISE_ONCE

HWY_BEFORE_NAMESPACE();
namespace shmoe::shmem::detail::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <class Format>
typename Format::Bits largest_bits(const QuantRow& row) {
  return largest_of_columns<Format>(row, 0, 0);
}

template <class Format>
void scale_row(const QuantRow& row, float mult) {
  scale_columns<Format>(row, 0, mult);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using SignedWords = hn::RebindToSigned<Floats>;
using FloatVec = hn::Vec<Floats>;
using WordVec = hn::Vec<Words>;

template <class Format>
HWY_INLINE typename Format::Bits largest_bits(const QuantRow& row) {
  using Bits = typename Format::Bits;
  const hn::ScalableTag<Bits> tag;
  const auto magnitude = hn::Set(tag, Format::kMagnitude);
  const std::size_t lanes = hn::Lanes(tag);
  auto first = hn::Zero(tag);
  auto second = hn::Zero(tag);
  std::size_t column = 0;
  for (; column + 2 * lanes <= row.columns; column += 2 * lanes) {
    const auto* from = reinterpret_cast<const Bits*>(row.x) + column;
    first = hn::Max(first, hn::And(hn::LoadU(tag, from), magnitude));
    second = hn::Max(second, hn::And(hn::LoadU(tag, from + lanes), magnitude));
  }
  HWY_ALIGN Bits each[hn::MaxLanes(tag)];
  hn::Store(hn::Max(first, second), tag, each);
  return largest_of_columns<Format>(row, column, *std::max_element(each, each + lanes));
}

template <class Bits>
HWY_INLINE WordVec load_words(const std::byte* from) {
  const hn::Rebind<Bits, Floats> tag;
  return hn::PromoteTo(Words(), hn::LoadU(tag, reinterpret_cast<const Bits*>(from)));
}

/// A vector of columns as fp32; finite numbers only.
HWY_INLINE FloatVec load_floats(QuantBf16 /*format*/, const std::byte* from) {
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(load_words<std::uint16_t>(from)));
}
/// The fraction and exponent of a half, one place below those of a float, are a float that is 2^112 times too small.
HWY_INLINE FloatVec load_floats(QuantFp16 /*format*/, const std::byte* from) {
  const Words words;
  const WordVec bits = load_words<std::uint16_t>(from);
  const WordVec sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(words, 0x8000)));
  const WordVec small = hn::ShiftLeft<13>(hn::And(bits, hn::Set(words, 0x7FFF)));
  const FloatVec magnitude = hn::Mul(hn::BitCast(Floats(), small), hn::Set(Floats(), 0x1p112F));
  return hn::BitCast(Floats(), hn::Or(sign, hn::BitCast(words, magnitude)));
}
HWY_INLINE FloatVec load_floats(QuantFp32 /*format*/, const std::byte* from) {
  return hn::LoadU(Floats(), reinterpret_cast<const float*>(from));
}

/// The nearest integer, of two the even one, of a number below 2^22: next to 1.5 * 2^23 a float has no room for more. The
/// library's own conversion does not compile without optimisation.
HWY_INLINE hn::Vec<SignedWords> nearest(FloatVec value) {
  const FloatVec beside = hn::Set(Floats(), 0x1.8p23F);
  return hn::Sub(hn::BitCast(SignedWords(), hn::Add(value, beside)), hn::BitCast(SignedWords(), beside));
}

template <class Format>
HWY_INLINE void scale_row(const QuantRow& row, float mult) {
  const Floats floats;
  const hn::Rebind<std::int8_t, Floats> bytes;
  const FloatVec factor = hn::Set(floats, mult);
  const std::size_t lanes = hn::Lanes(floats);
  std::size_t column = 0;
  for (; column + lanes <= row.columns; column += lanes) {
    const FloatVec scaled = hn::Mul(load_floats(Format(), row.x + column * sizeof(typename Format::Bits)), factor);
    hn::StoreU(hn::DemoteTo(bytes, nearest(scaled)), bytes, reinterpret_cast<std::int8_t*>(row.q + column));
  }
  scale_columns<Format>(row, column, mult);
}

#endif  // HWY_TARGET == HWY_SCALAR

template <class Format>
float quantise(const QuantRow& row) {
  const float largest = Format::decode(largest_bits<Format>(row));
  if (!std::isfinite(largest)) return give_up(row, largest);
  const float mult = multiplier(largest);
  scale_row<Format>(row, mult);
  return 1.0F / mult;
}

float quantise_bf16(const QuantRow& row) { return quantise<QuantBf16>(row); }
float quantise_fp16(const QuantRow& row) { return quantise<QuantFp16>(row); }
float quantise_fp32(const QuantRow& row) { return quantise<QuantFp32>(row); }

}  // namespace shmoe::shmem::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace shmoe::shmem {
namespace detail {

HWY_EXPORT(quantise_bf16);
HWY_EXPORT(quantise_fp16);
HWY_EXPORT(quantise_fp32);

float dispatch_quantise(DType type, const QuantRow& row) {
  switch (type) {
    case DType::bf16: return HWY_DYNAMIC_DISPATCH(quantise_bf16)(row);
    case DType::fp16: return HWY_DYNAMIC_DISPATCH(quantise_fp16)(row);
    case DType::fp32: break;
  }
  return HWY_DYNAMIC_DISPATCH(quantise_fp32)(row);
}

template <class Encode>
void dequantise(std::span<const std::byte> q, float scale, std::byte* y, const Encode& encode) {
  for (std::size_t column = 0; column < q.size(); ++column) {
    const auto element = encode(static_cast<float>(static_cast<std::int8_t>(q[column])) * scale);
    std::memcpy(y + column * sizeof element, &element, sizeof element);
  }
}

void check_lengths(DType type, std::span<const std::byte> row, std::span<const std::byte> q) {
  SHMOE_EXPECTS(row.size() == q.size() * size_of(type).index(), "{} bytes of {} for {} of int8", row.size(),
                name_of(type), q.size());
}

}  // namespace detail

float quantise_row(DType type, std::span<const std::byte> x, std::span<std::byte> q) {
  detail::check_lengths(type, x, q);
  return detail::dispatch_quantise(type, {x.data(), q.size(), q.data()});
}

void dequantise_row(DType type, std::span<const std::byte> q, float scale, std::span<std::byte> y) {
  detail::check_lengths(type, y, q);
  switch (type) {
    case DType::bf16: return detail::dequantise(q, scale, y.data(), float_to_bf16);
    case DType::fp16: return detail::dequantise(q, scale, y.data(), float_to_fp16);
    case DType::fp32: return detail::dequantise(q, scale, y.data(), [](float value) { return value; });
  }
}

}  // namespace shmoe::shmem

#endif  // HWY_ONCE
