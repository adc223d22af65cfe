#include "shmem/copy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "shmem/number.hpp"
#include "shmem/result.hpp"
#include "tests/seed.hpp"
#include "tests/shmem/every_target.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using shmoe::test::fresh_random;
using shmoe::test::on_every_target;

namespace {

constexpr std::array kTypes{DType::bf16, DType::fp16, DType::fp32};

/// What a small float format is, told by its numbers; the reference computes with values, not with bits.
struct Format {
  const char* name;
  int fraction_bits;
  int lowest_exponent;  // of a normal number
  int highest_exponent;
  float (*decode)(std::uint16_t);
  std::uint16_t (*encode)(float);
};
constexpr Format kBf16{"bf16", 7, -126, 127, bf16_to_float, float_to_bf16};
constexpr Format kFp16{"fp16", 10, -14, 15, fp16_to_float, float_to_fp16};

double reference_decode(const Format& format, std::uint32_t bits) {
  const auto fraction_size = static_cast<std::uint32_t>(1) << format.fraction_bits;
  const auto top = static_cast<std::uint32_t>(format.highest_exponent - format.lowest_exponent + 2);
  const std::uint32_t fraction = bits % fraction_size;
  const std::uint32_t exponent = bits % 0x8000U / fraction_size;
  const double sign = bits >= 0x8000U ? -1.0 : 1.0;
  if (exponent == top) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint32_t significand = exponent == 0 ? fraction : fraction + fraction_size;
  const int power = format.lowest_exponent + static_cast<int>(exponent == 0 ? 1 : exponent) - 1 - format.fraction_bits;
  return sign * std::ldexp(static_cast<double>(significand), power);
}

/// The nearest value of the format, ties to even. Neighbours are a power of two apart, so the quotient is exact.
double reference_round(const Format& format, double value) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.lowest_exponent);
  const double step = std::ldexp(1.0, exponent - format.fraction_bits);
  const double rounded = std::nearbyint(value / step) * step;
  if (std::fabs(rounded) >= std::ldexp(1.0, format.highest_exponent + 1)) {
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  return rounded;
}

bool same_value(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

bool encodes_right(const Format& format, float value) {
  return same_value(reference_decode(format, format.encode(value)),
                    reference_round(format, static_cast<double>(value)));
}

void check_encode(const Format& format, float value) {
  if (encodes_right(format, value)) return;
  FAIL_CHECK(format.name << " of " << value << " gives bits " << format.encode(value));
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float load_element(DType type, const std::byte* from) {
  if (type == DType::bf16) return bf16_to_float(load<std::uint16_t>(from));
  if (type == DType::fp16) return fp16_to_float(load<std::uint16_t>(from));
  return load<float>(from);
}

/// The bits of a result; every NaN gives the same ones.
std::uint32_t result_bits(DType type, const std::byte* from) {
  const float value = load_element(type, from);
  return std::isnan(value) ? 0x7FC0'0000U : std::bit_cast<std::uint32_t>(value);
}

using Row = std::span<const std::byte>;

/// Column by column in k order, two roundings a step.
std::vector<std::byte> reference_sum(DType type, std::span<const Row> rows, std::span<const float> weights,
                                     std::size_t columns) {
  const std::size_t size = size_of(type).index();
  std::vector<std::byte> out(columns * size);
  for (std::size_t j = 0; j < columns; ++j) {
    volatile float total = 0.0F;  // volatile: each step is rounded to a stored fp32
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const volatile float product = load_element(type, rows[k].data() + j * size) * weights[k];
      total = total + product;
    }
    const float value = total;
    const std::uint16_t half = type == DType::bf16 ? float_to_bf16(value) : float_to_fp16(value);
    if (type == DType::fp32) {
      std::memcpy(&out[j * size], &value, size);
    } else {
      std::memcpy(&out[j * size], &half, size);
    }
  }
  return out;
}

/// First column that differs, or `columns`.
std::size_t first_difference(DType type, std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::size_t size = size_of(type).index();
  const std::size_t columns = a.size() / size;
  for (std::size_t j = 0; j < columns; ++j) {
    if (result_bits(type, &a[j * size]) != result_bits(type, &b[j * size])) return j;
  }
  return columns;
}

void fill(DType type, std::span<std::byte> row, std::mt19937& random) {
  if (type == DType::fp32) {
    std::uniform_real_distribution<float> values(-100.0F, 100.0F);
    for (std::size_t at = 0; at < row.size(); at += 4) {
      const float value = values(random);
      std::memcpy(&row[at], &value, 4);
    }
    return;
  }
  for (std::byte& byte : row) byte = static_cast<std::byte>(random() & 0xFFU);
}

/// Rows as exact allocations (a sanitiser sees a read past either end), each `shift` bytes off the allocation's start.
struct Rows {
  Rows(DType type, std::size_t count, std::size_t columns, std::mt19937& random) {
    std::uniform_real_distribution<float> weight(-2.0F, 2.0F);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t shift = k % 4 * 2;
      store.emplace_back(columns * size_of(type).index() + shift);
      fill(type, std::span(store.back()).subspan(shift), random);
      views.push_back(Row(store.back()).subspan(shift));
      weights.push_back(weight(random));
    }
  }
  std::vector<std::vector<std::byte>> store;
  std::vector<Row> views;
  std::vector<float> weights;
};

/// A result between two canaries, at an address of its own.
struct GuardedOut {
  static constexpr std::size_t kGuard = 66;
  static constexpr std::byte kCanary{0xA5};
  explicit GuardedOut(std::size_t size) : store(size + 2 * kGuard, kCanary) {}
  std::span<std::byte> out() { return std::span(store).subspan(kGuard, store.size() - 2 * kGuard); }
  bool intact() const {
    const auto is_canary = [](std::byte b) { return b == kCanary; };
    return std::all_of(store.begin(), store.begin() + kGuard, is_canary) &&
           std::all_of(store.end() - kGuard, store.end(), is_canary);
  }
  std::vector<std::byte> store;
};

void check_sum(DType type, std::size_t count, std::size_t columns, std::mt19937& random) {
  const Rows rows(type, count, columns, random);
  GuardedOut result(columns * size_of(type).index());
  weighted_row_sum(type, rows.views, rows.weights, result.out());
  const auto expected = reference_sum(type, rows.views, rows.weights, columns);
  CAPTURE(name_of(type));
  CAPTURE(count);
  CAPTURE(columns);
  CHECK(first_difference(type, result.out(), expected) == columns);
  CHECK(result.intact());
}

/// One row of all 65536 bit patterns.
std::vector<std::byte> every_pattern() {
  std::vector<std::byte> row(std::size_t{65536} * 2);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    std::memcpy(&row[std::size_t{bits} * 2], &half, 2);
  }
  return row;
}

std::vector<std::byte> row_of(const std::vector<float>& values) {
  std::vector<std::byte> row;
  for (const float value : values) {
    const std::uint16_t half = float_to_bf16(value);
    row.push_back(static_cast<std::byte>(half & 0xFFU));
    row.push_back(static_cast<std::byte>(half >> 8));
  }
  return row;
}

}  // namespace

TEST_CASE("number: each of the 65536 patterns decodes to its value and encodes back to itself") {
  for (const Format& format : {kBf16, kFp16}) {
    CAPTURE(format.name);
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float value = format.decode(static_cast<std::uint16_t>(bits));
      if (!same_value(static_cast<double>(value), reference_decode(format, bits))) ++wrong;
      if (!std::isnan(value) && format.encode(value) != bits) ++wrong;
      if (std::isnan(value) && !std::isnan(format.decode(format.encode(value)))) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("number: rounding is right at, just below and just above each tie and each value") {
  for (const Format& format : {kBf16, kFp16}) {
    for (std::uint32_t bits = 0; bits < 65535; ++bits) {
      const double low = reference_decode(format, bits);
      const double high = reference_decode(format, bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const auto tie = static_cast<float>((low + high) / 2);
      for (const float middle : {tie, static_cast<float>(low)}) {
        check_encode(format, middle);
        check_encode(format, std::nextafterf(middle, -INFINITY));
        check_encode(format, std::nextafterf(middle, INFINITY));
      }
    }
  }
}

TEST_CASE("number: rounding is right for edge values and for random bits") {
  using Limits = std::numeric_limits<float>;
  std::mt19937 random = fresh_random();
  for (const Format& format : {kBf16, kFp16}) {
    for (const float edge : {0.0F, Limits::infinity(), Limits::max(), Limits::min(), Limits::denorm_min(),
                             Limits::quiet_NaN(), Limits::signaling_NaN(), 65504.0F, 65519.996F, 65520.0F, 65536.0F,
                             0x1p-14F, 0x1p-24F, 0x1p-25F, 0x1.8p-25F, 0x1.000002p-25F, 0x1.fep127F, 0x1.fffffep-15F}) {
      check_encode(format, edge);
      check_encode(format, -edge);
    }
    for (int i = 0; i < 1'000'000; ++i) {
      check_encode(format, std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    }
  }
}

TEST_CASE("number: NaNs become quiet and keep their sign") {
  CHECK(float_to_bf16(std::bit_cast<float>(0x7F80'0001U)) == 0x7FC0);
  CHECK(float_to_bf16(std::bit_cast<float>(0xFFFF'FFFFU)) == 0xFFFF);
  CHECK(float_to_fp16(std::bit_cast<float>(0x7F80'0001U)) == 0x7E00);
  CHECK(float_to_fp16(std::bit_cast<float>(0xFF80'0001U)) == 0xFE00);
  static_assert(float_to_bf16(1.0F) == 0x3F80 && fp16_to_float(0x3C00) == 1.0F);
}

TEST_CASE("weighted_row_sum equals the scalar sum to the bit for any H and K") {
  std::mt19937 random = fresh_random();
  on_every_target([&] {
    for (const DType type : kTypes) {
      for (const std::size_t columns : {1U, 2U, 3U, 7U, 8U, 15U, 16U, 17U, 31U, 33U, 64U, 100U, 1000U, 4100U}) {
        for (std::size_t count = 0; count <= 16; ++count) check_sum(type, count, columns, random);
      }
    }
  });
}

TEST_CASE("weighted_row_sum takes each 16-bit pattern through decode, multiplication and encode") {
  std::mt19937 random = fresh_random();
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::uniform_real_distribution<float> significand(-1.0F, 1.0F);
  const auto row = every_pattern();
  const std::array<Row, 1> rows{row};
  std::vector<float> weights{
      1.0F, -1.0F, 0.0F, 0.5F, 0x1p-10F, 0x1p-140F, INFINITY, NAN, std::bit_cast<float>(0xFFFF'FFFFU)};
  for (int i = 0; i < 12; ++i) weights.push_back(std::ldexp(significand(random), exponent(random)));
  on_every_target([&] {
    std::vector<std::byte> out(row.size());
    for (const DType type : {DType::bf16, DType::fp16}) {
      for (const float weight : weights) {
        CAPTURE(name_of(type));
        CAPTURE(weight);
        const std::array<float, 1> one{weight};
        weighted_row_sum(type, rows, one, out);
        CHECK(first_difference(type, out, reference_sum(type, rows, one, 65536)) == 65536);
      }
    }
  });
}

TEST_CASE("weighted_row_sum rounds the product before the addition") {
  // a * w is inexact; a fused step would leave 2^-30 instead of nothing.
  const float a = 1.0F + 0x1p-7F;
  const float w = 1.0F + 0x1p-23F;
  const auto negative = row_of(std::vector<float>(77, -a));
  const auto positive = row_of(std::vector<float>(77, a));
  const std::array<Row, 2> rows{negative, positive};
  const std::array<float, 2> weights{w, w};
  on_every_target([&] {
    std::vector<std::byte> out(negative.size(), std::byte{0xFF});
    weighted_row_sum(DType::bf16, rows, weights, out);
    CHECK(std::all_of(out.begin(), out.end(), [](std::byte b) { return b == std::byte{0}; }));
  });
}

TEST_CASE("weighted_row_sum breaks the ties of the published example to even") {
  const auto expert3 = row_of({36, 40, 44, 48});
  const auto expert2 = row_of({27, 30, 33, 36});
  const std::array<Row, 2> rows{expert3, expert2};
  const std::array<float, 2> weights{0.625F, 0.375F};  // fp32 sums 32.625, 36.25, 39.875, 43.5
  on_every_target([&] {
    std::vector<std::byte> out(8);
    weighted_row_sum(DType::bf16, rows, weights, out);
    CHECK(out == row_of({32.5F, 36.25F, 40.0F, 43.5F}));
  });
}

TEST_CASE("weighted_row_sum refuses shapes that do not fit together") {
  std::vector<std::byte> row(8);
  std::vector<std::byte> out(8);
  const std::array<Row, 1> rows{row};
  const std::array<float, 2> weights{1.0F, 1.0F};
  const auto one = std::span(weights).first(1);
  CHECK_THROWS_WITH_AS(weighted_row_sum(DType::bf16, rows, weights, out), doctest::Contains("1 rows but 2 weights"),
                       ContractViolation);
  CHECK_THROWS_WITH_AS(weighted_row_sum(DType::bf16, rows, one, std::span(out).first(6)),
                       doctest::Contains("row 0 has 8 bytes, the result 6"), ContractViolation);
  CHECK_THROWS_WITH_AS(weighted_row_sum(DType::fp32, {}, {}, std::span(out).first(6)),
                       doctest::Contains("6 bytes are no whole number of fp32 elements"), ContractViolation);
}
