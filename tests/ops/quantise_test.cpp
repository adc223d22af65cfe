#include "shmem/quantise.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "ops/ep/reference.hpp"
#include "shmem/result.hpp"
#include "tests/seed.hpp"
#include "tests/shmem/every_target.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using shmoe::test::fresh_random;
using shmoe::test::on_every_target;
namespace reference = shmoe::ops::reference;

namespace {

constexpr std::array kTypes{DType::bf16, DType::fp16, DType::fp32};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> row_of(DType type, const std::vector<float>& values) {
  std::vector<std::byte> row(values.size() * size_of(type).index());
  for (std::size_t j = 0; j < values.size(); ++j) {
    reference::store(type, row, static_cast<std::int64_t>(j), values[j]);
  }
  return row;
}

constexpr std::byte kCanary{0xA5};

/// q as bytes, and the bits of the scale behind them; kCanary once more where a byte beyond q was written.
std::vector<std::byte> quantised(DType type, std::span<const std::byte> x) {
  const std::size_t columns = x.size() / size_of(type).index();
  constexpr std::size_t kGuard = 65;
  std::vector<std::byte> room(columns + 2 * kGuard, kCanary);
  const float scale = quantise_row(type, x, std::span{room}.subspan(kGuard, columns));
  std::vector<std::byte> out(room.begin() + kGuard, room.end() - kGuard);
  out.resize(columns + sizeof scale);
  std::memcpy(out.data() + columns, &scale, sizeof scale);
  const auto is_canary = [](std::byte b) { return b == kCanary; };
  if (!std::all_of(room.begin(), room.begin() + kGuard, is_canary) ||
      !std::all_of(room.end() - kGuard, room.end(), is_canary)) {
    out.push_back(kCanary);
  }
  return out;
}

std::vector<std::byte> expected(DType type, std::span<const std::byte> x) {
  const std::size_t columns = x.size() / size_of(type).index();
  const reference::Quantised row = reference::quantise(type, x);
  std::vector<std::byte> out(columns + sizeof row.scale);
  if (columns > 0) std::memcpy(out.data(), row.q.data(), columns);
  std::memcpy(out.data() + columns, &row.scale, sizeof row.scale);
  return out;
}

std::vector<float> drawn(std::size_t columns, std::mt19937& random, int lowest, int highest) {
  std::uniform_int_distribution<int> exponent(lowest, highest);
  std::uniform_real_distribution<float> significand(-1.0F, 1.0F);
  std::vector<float> values(columns);
  for (float& value : values) value = std::ldexp(significand(random), exponent(random));
  return values;
}

struct Row {
  std::vector<int> q;
  float scale;
};

Row small_row(DType type, const std::vector<float>& values) {
  const auto x = row_of(type, values);
  std::vector<std::byte> q(values.size());
  Row row{.q = {}, .scale = quantise_row(type, x, q)};
  for (const std::byte b : q) row.q.push_back(static_cast<std::int8_t>(b));
  return row;
}

}  // namespace

TEST_CASE("quantise_row gives the numbers of the published example") {
  on_every_target([] {
    for (const DType type : kTypes) {
      CAPTURE(name_of(type));
      const Row row = small_row(type, {1.0F, -2.5F, 3.0F, 0.5F});
      CHECK(row.q == std::vector<int>{42, -106, 127, 21});
      CHECK(row.scale == 0.023622047156095505F);
      const Row zeros = small_row(type, std::vector<float>(37, 0.0F));
      CHECK(zeros.q == std::vector<int>(37, 0));
      CHECK(zeros.scale == 7.874015819698489e-15F);
    }
  });
}

TEST_CASE("quantise_row rounds ties to even") {
  // The largest is 127, so mult is 1 and halves stay halves.
  on_every_target([] {
    const Row row = small_row(DType::fp32, {127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F, 125.5F, -126.5F,
                                            -127.0F, 0.49999997F, 0.50000006F, 63.5F, 64.5F, -0.0F, 3.5F});
    CHECK(row.q == std::vector<int>{127, 0, 2, 2, 0, -2, -2, 126, 126, -126, -127, 0, 1, 64, 64, 0, 4});
    CHECK(row.scale == 1.0F);
  });
}

TEST_CASE("quantise_row equals the reference to the bit for any H, type and size of the numbers") {
  std::mt19937 random = fresh_random();
  for (const std::size_t columns : {0U, 1U, 2U, 7U, 8U, 15U, 16U, 17U, 31U, 33U, 64U, 100U, 127U, 1000U, 7168U}) {
    for (const auto& exponents : {std::pair{-2, 2}, {-20, 10}, {-24, -14}, {-140, -100}, {-50, -35}, {10, 15}}) {
      const std::vector<float> values = drawn(columns, random, exponents.first, exponents.second);
      for (const DType type : kTypes) {
        const auto x = row_of(type, values);
        const auto right = expected(type, x);
        on_every_target([&] {
          INFO(name_of(type) << " " << columns << " columns of 2^" << exponents.first << " to 2^" << exponents.second);
          CHECK(quantised(type, x) == right);
        });
      }
    }
  }
}

TEST_CASE("quantise_row takes every 16-bit pattern, at any place in a row") {
  for (const DType type : {DType::bf16, DType::fp16}) {
    CAPTURE(name_of(type));
    // Rows of 97 patterns each, so that each pattern meets vectors and the columns left over.
    for (std::uint32_t first = 0; first < 65536; first += 97) {
      std::vector<std::byte> x;
      for (std::uint32_t bits = first; bits < std::min(first + 97, 65536U); ++bits) {
        x.push_back(static_cast<std::byte>(bits & 0xFFU));
        x.push_back(static_cast<std::byte>(bits >> 8));
      }
      const auto right = expected(type, x);
      on_every_target([&] { REQUIRE(quantised(type, x) == right); });
    }
  }
}

TEST_CASE("quantise_row gives up a row with an infinity or a NaN, and says so in each of its columns") {
  for (const std::size_t place : {0U, 15U, 36U}) {
    for (const float special : {kInfinity, -kInfinity, kNan, -kNan}) {
      for (const DType type : kTypes) {
        std::vector<float> values(37, 3.0F);
        values[place] = special;
        const auto x = row_of(type, values);
        const auto right = expected(type, x);
        on_every_target([&] {
          INFO(name_of(type) << " " << special << " in column " << place);
          CHECK(quantised(type, x) == right);
          const Row row = small_row(type, values);
          CHECK(row.q == std::vector<int>(37, 0));
          CHECK(std::isnan(row.scale) == std::isnan(special));
          CHECK((std::isnan(row.scale) || row.scale == kInfinity));
          std::vector<std::byte> q(37);
          std::vector<std::byte> y(x.size());
          dequantise_row(type, q, row.scale, y);
          for (std::int64_t j = 0; j < 37; ++j) CHECK(std::isnan(reference::load(type, y, j)));
        });
      }
    }
  }
}

TEST_CASE("quantise_row reads nothing beyond the row, at any address") {
  std::mt19937 random = fresh_random();
  const auto values = drawn(123, random, -3, 3);
  for (const DType type : kTypes) {
    const auto x = row_of(type, values);
    const auto right = expected(type, x);
    for (const std::size_t shift : {0U, 1U, 2U, 3U}) {
      std::vector<std::byte> moved(x.size() + shift);  // an exact allocation: a sanitiser sees a read past its end
      std::copy(x.begin(), x.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
      on_every_target([&] { CHECK(quantised(type, std::span{moved}.subspan(shift)) == right); });
    }
  }
}

TEST_CASE("dequantise_row is one product and one rounding a column, within half a step of x") {
  std::mt19937 random = fresh_random();
  for (const DType type : kTypes) {
    const auto values = drawn(1000, random, -4, 4);
    const auto x = row_of(type, values);
    std::vector<std::byte> q(values.size());
    const float scale = quantise_row(type, x, q);
    std::vector<std::byte> y(x.size());
    dequantise_row(type, q, scale, y);
    std::vector<std::byte> right(x.size());
    for (std::int64_t j = 0; j < 1000; ++j) {
      const auto number = static_cast<float>(static_cast<std::int8_t>(q[static_cast<std::size_t>(j)]));
      reference::store(type, right, j, number * scale);
      const double error = std::fabs(static_cast<double>(number) * static_cast<double>(scale) -
                                     static_cast<double>(reference::load(type, x, j)));
      CHECK(error <= static_cast<double>(scale) * 0.50001);
    }
    CHECK(y == right);
  }
}

TEST_CASE("rows of lengths that do not fit together are refused") {
  std::vector<std::byte> x(8);
  std::vector<std::byte> q(3);
  CHECK_THROWS_AS((void)quantise_row(DType::bf16, x, q), ContractViolation);
  CHECK_THROWS_AS(dequantise_row(DType::fp32, q, 1.0F, x), ContractViolation);
}
