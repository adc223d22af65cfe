// The weighted sum of rows, for each instruction set.

#include "shmem/copy.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shmem/number.hpp"
#include "shmem/result.hpp"

// Pair below holds vectors in a struct, which targets with vectors of unknown size do not allow; those CPUs run NEON or
// the portable body.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// Everything between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE is compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shmem/row_sum.cpp"  // NOLINT(bugprone-suspicious-include)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef SHMOE_SHMEM_ROW_SUM_ONCE
#define SHMOE_SHMEM_ROW_SUM_ONCE

namespace shmoe::shmem::detail {

using Row = std::span<const std::byte>;

inline constexpr std::size_t kCacheLine = 64;
/// Of a row, in bytes: while the sum computes the CPU looks less far ahead than while it only reads. A kilobyte is as
/// good where rows come from memory and worse where they come from a shared cache.
inline constexpr std::size_t kAhead = 512;

/// Arguments of one sum after the checks; columns are counted in elements.
struct RowSum {
  const Row* rows;
  const float* weights;
  std::size_t row_count;
  std::byte* out;
  std::size_t columns;
};

template <class T>
inline T load_one(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
inline void store_one(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

struct ScalarBf16 {
  static constexpr std::size_t kSize = 2;
  static float load(const std::byte* from) { return bf16_to_float(load_one<std::uint16_t>(from)); }
  static void store(float value, std::byte* to) { store_one(float_to_bf16(value), to); }
};

struct ScalarFp16 {
  static constexpr std::size_t kSize = 2;
  static float load(const std::byte* from) { return fp16_to_float(load_one<std::uint16_t>(from)); }
  static void store(float value, std::byte* to) { store_one(float_to_fp16(value), to); }
};

struct ScalarFp32 {
  static constexpr std::size_t kSize = 4;
  static float load(const std::byte* from) { return load_one<float>(from); }
  static void store(float value, std::byte* to) { store_one(value, to); }
};

inline bool has_nan(const RowSum& sum) {
  return std::any_of(sum.weights, sum.weights + sum.row_count, [](float weight) { return std::isnan(weight); });
}

/// The columns from `first` on, one at a time.
template <class Scalar>
void sum_columns(const RowSum& sum, std::size_t first) {
  for (std::size_t column = first; column < sum.columns; ++column) {
    const std::size_t at = column * Scalar::kSize;
    float total = 0.0F;
    for (std::size_t k = 0; k < sum.row_count; ++k) {
      const float product = Scalar::load(sum.rows[k].data() + at) * sum.weights[k];
      total = total + product;
    }
    Scalar::store(total, sum.out + at);
  }
}

}  // namespace shmoe::shmem::detail

#endif  // SHMOE_SHMEM_ROW_SUM_ONCE

HWY_BEFORE_NAMESPACE();
namespace shmoe::shmem::detail::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void sum_bf16(const RowSum& sum) { sum_columns<ScalarBf16>(sum, 0); }
void sum_fp16(const RowSum& sum) { sum_columns<ScalarFp16>(sum, 0); }
void sum_fp32(const RowSum& sum) { sum_columns<ScalarFp32>(sum, 0); }

#else

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using SignedWords = hn::RebindToSigned<Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using FloatVec = hn::Vec<Floats>;
using WordVec = hn::Vec<Words>;

/// Two vectors of columns. Which column lies in which lane is the format's own choice; load and store agree on it.
struct Pair {
  FloatVec a;
  FloatVec b;
};

/// Even columns in a, odd columns in b: a word holds one of each, so nothing has to be widened or narrowed. The rounding
/// is spelled out because the library's own bf16 demotion truncates.
struct Bf16 : ScalarBf16 {
  static HWY_INLINE Pair load(const std::byte* from) {
    const Words words;
    const WordVec both = hn::LoadU(words, reinterpret_cast<const std::uint32_t*>(from));
    const WordVec odd = hn::And(both, hn::Set(words, 0xFFFF'0000U));
    return {hn::BitCast(Floats(), hn::ShiftLeft<16>(both)), hn::BitCast(Floats(), odd)};
  }
  static HWY_INLINE void store(const Pair& value, std::byte* to) {
    const hn::Repartition<std::uint16_t, Words> halves;
    const auto even = hn::BitCast(halves, hn::ShiftRight<16>(rounded(value.a)));
    const auto odd = hn::BitCast(halves, rounded(value.b));
    hn::StoreU(hn::OddEven(odd, even), halves, reinterpret_cast<std::uint16_t*>(to));
  }

 private:
  /// The result in the upper 16 bits. A NaN of a row, or of an infinity, has nothing in the lower ones and so stays.
  static HWY_INLINE WordVec rounded(FloatVec value) {
    const Words words;
    const WordVec bits = hn::BitCast(words, value);
    const WordVec lowest_kept = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    return hn::Add(bits, hn::Add(lowest_kept, hn::Set(words, 0x7FFF)));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)

/// The conversion instructions of these targets are exact and round to nearest even.
HWY_INLINE FloatVec load_fp16(const std::byte* from) {
  const hn::Rebind<hwy::float16_t, Floats> tag;
  const auto halves = hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(from));
  return hn::PromoteTo(Floats(), hn::BitCast(tag, halves));
}

HWY_INLINE void store_fp16(FloatVec value, std::byte* to) {
  const hn::Rebind<hwy::float16_t, Floats> tag;
  const auto halves = hn::BitCast(Halves(), hn::DemoteTo(tag, value));
  hn::StoreU(halves, Halves(), reinterpret_cast<std::uint16_t*>(to));
}

#else

/// The library's emulation truncates and loses infinities and NaNs; these are the steps of number.hpp.
HWY_INLINE FloatVec load_fp16(const std::byte* from) {
  const Words words;
  const auto halves = hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(from));
  const WordVec bits = hn::PromoteTo(words, halves);
  const WordVec sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(words, 0x8000)));
  const WordVec shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(words, 0x7FFF)));
  const WordVec exponent = hn::And(shifted, hn::Set(words, 0x0F80'0000));
  const WordVec normal = hn::Add(shifted, hn::Set(words, (127U - 15U) << 23));
  const WordVec infinite = hn::Or(shifted, hn::Set(words, kFloatInfinity));
  const auto fraction = hn::ConvertTo(Floats(), hn::BitCast(SignedWords(), hn::ShiftRight<13>(shifted)));
  const WordVec subnormal = hn::BitCast(words, hn::Mul(fraction, hn::Set(Floats(), 0x1p-24F)));
  const WordVec finite = hn::IfThenElse(hn::Eq(exponent, hn::Zero(words)), subnormal, normal);
  const auto at_top = hn::Eq(exponent, hn::Set(words, 0x0F80'0000));
  return hn::BitCast(Floats(), hn::Or(sign, hn::IfThenElse(at_top, infinite, finite)));
}

HWY_INLINE WordVec choose(hn::Mask<Floats> mask, WordVec yes, WordVec no) {
  return hn::IfThenElse(hn::RebindMask(Words(), mask), yes, no);
}

HWY_INLINE void store_fp16(FloatVec value, std::byte* to) {
  const Floats floats;
  const Words words;
  const FloatVec magnitude = hn::Abs(value);
  const WordVec bits = hn::BitCast(words, magnitude);
  const WordVec sign = hn::ShiftRight<16>(hn::Xor(hn::BitCast(words, value), bits));
  const WordVec lowest_kept = hn::And(hn::ShiftRight<13>(bits), hn::Set(words, 1));
  const WordVec bias = hn::Add(hn::Set(words, 0xFFFU - ((127U - 15U) << 23)), lowest_kept);
  const WordVec normal = hn::ShiftRight<13>(hn::Add(bits, bias));
  const FloatVec half = hn::Set(floats, 0.5F);
  const WordVec subnormal = hn::Sub(hn::BitCast(words, hn::Add(magnitude, half)), hn::BitCast(words, half));
  WordVec result = choose(hn::Lt(magnitude, hn::Set(floats, 0x1p-14F)), subnormal, normal);
  result = choose(hn::Ge(magnitude, hn::Set(floats, 0x1p16F)), hn::Set(words, 0x7C00), result);
  result = choose(hn::IsNaN(value), hn::Set(words, 0x7E00), result);
  const auto narrow = hn::DemoteTo(Halves(), hn::BitCast(SignedWords(), hn::Or(sign, result)));
  hn::StoreU(narrow, Halves(), reinterpret_cast<std::uint16_t*>(to));
}

#endif

struct Fp16 : ScalarFp16 {
  static HWY_INLINE Pair load(const std::byte* from) {
    return {load_fp16(from), load_fp16(from + hn::Lanes(Floats()) * kSize)};
  }
  static HWY_INLINE void store(const Pair& value, std::byte* to) {
    store_fp16(value.a, to);
    store_fp16(value.b, to + hn::Lanes(Floats()) * kSize);
  }
};

struct Fp32 : ScalarFp32 {
  static HWY_INLINE Pair load(const std::byte* from) {
    const auto* values = reinterpret_cast<const float*>(from);
    return {hn::LoadU(Floats(), values), hn::LoadU(Floats(), values + hn::Lanes(Floats()))};
  }
  static HWY_INLINE void store(const Pair& value, std::byte* to) {
    auto* values = reinterpret_cast<float*>(to);
    hn::StoreU(value.a, Floats(), values);
    hn::StoreU(value.b, Floats(), values + hn::Lanes(Floats()));
  }
};

/// One step of the sum. Never MulAdd: it would round once where two roundings are promised.
template <class Format>
HWY_INLINE void step(Pair& total, const std::byte* row, FloatVec weight) {
  const Pair value = Format::load(row);
  total.a = hn::Add(total.a, hn::Mul(value.a, weight));
  total.b = hn::Add(total.b, hn::Mul(value.b, weight));
}

/// `kPairs` pairs of columns at each visit to a row, from `column` on; returns the first column that is left.
template <class Format, int kPairs>
HWY_INLINE std::size_t sum_blocks(const RowSum& sum, std::size_t column) {
  const Floats floats;
  const std::size_t width = 2 * hn::Lanes(floats);
  const std::size_t stride = width * Format::kSize;
  for (; column + kPairs * width <= sum.columns; column += kPairs * width) {
    const std::size_t at = column * Format::kSize;
    Pair totals[kPairs];
#pragma GCC unroll 4
    for (Pair& total : totals) total = {hn::Zero(floats), hn::Zero(floats)};
    const std::size_t ahead = at + kAhead < sum.columns * Format::kSize ? kAhead : 0;
    for (std::size_t k = 0; k < sum.row_count; ++k) {
      const std::byte* row = sum.rows[k].data() + at;
      const FloatVec weight = hn::Set(floats, sum.weights[k]);
      for (std::size_t line = 0; line < kPairs * stride; line += kCacheLine) __builtin_prefetch(row + ahead + line);
#pragma GCC unroll 4
      for (std::size_t pair = 0; pair < kPairs; ++pair) step<Format>(totals[pair], row + pair * stride, weight);
    }
#pragma GCC unroll 4
    for (std::size_t pair = 0; pair < kPairs; ++pair) Format::store(totals[pair], sum.out + at + pair * stride);
  }
  return column;
}

/// The totals of four pairs stay in registers, on every target; then one pair; then one column.
template <class Format, class Scalar>
HWY_INLINE void sum_rows(const RowSum& sum) {
  std::size_t column = sum_blocks<Format, 4>(sum, 0);
  column = sum_blocks<Format, 1>(sum, column);
  sum_columns<Scalar>(sum, column);
}

/// A NaN among the weights may have any bits, which Bf16::store does not expect.
void sum_bf16(const RowSum& sum) {
  if (has_nan(sum)) return sum_columns<ScalarBf16>(sum, 0);
  sum_rows<Bf16, ScalarBf16>(sum);
}
void sum_fp16(const RowSum& sum) { sum_rows<Fp16, ScalarFp16>(sum); }
void sum_fp32(const RowSum& sum) { sum_rows<Fp32, ScalarFp32>(sum); }

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace shmoe::shmem::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace shmoe::shmem {

namespace detail {

HWY_EXPORT(sum_bf16);
HWY_EXPORT(sum_fp16);
HWY_EXPORT(sum_fp32);

void dispatch_sum(DType type, const RowSum& sum) {
  switch (type) {
    case DType::bf16: return HWY_DYNAMIC_DISPATCH(sum_bf16)(sum);
    case DType::fp16: return HWY_DYNAMIC_DISPATCH(sum_fp16)(sum);
    case DType::fp32: return HWY_DYNAMIC_DISPATCH(sum_fp32)(sum);
  }
}

}  // namespace detail

void weighted_row_sum(DType type, std::span<const std::span<const std::byte>> rows, std::span<const float> weights,
                      std::span<std::byte> out) {
  const std::size_t element = size_of(type).index();
  SHMOE_EXPECTS(rows.size() == weights.size(), "{} rows but {} weights", rows.size(), weights.size());
  SHMOE_EXPECTS(out.size() % element == 0, "{} bytes are no whole number of {} elements", out.size(), name_of(type));
  for (std::size_t k = 0; k < rows.size(); ++k) {
    SHMOE_EXPECTS(rows[k].size() == out.size(), "row {} has {} bytes, the result {}", k, rows[k].size(), out.size());
  }
  detail::dispatch_sum(type, {rows.data(), weights.data(), rows.size(), out.data(), out.size() / element});
}

}  // namespace shmoe::shmem

#endif  // HWY_ONCE
