// The parts of the benchmark that figures rest on: medians and their intervals, bare copies and bare reads, reports.

#include <doctest/doctest.h>

#include <numeric>

#include "apps/bench/report.hpp"
#include "apps/bench/row_moves.hpp"
#include "apps/bench/samples.hpp"

using namespace shmoe;
using namespace shmoe::apps;

namespace {

std::vector<std::byte> counted_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

}  // namespace

TEST_CASE("the interval of a median is that of the binomial distribution") {
  std::vector<double> samples(100);
  std::iota(samples.rbegin(), samples.rend(), 1.0);
  const Estimate hundred = estimate(samples);
  CHECK(hundred.median == doctest::Approx(50.5));
  CHECK(hundred.low == doctest::Approx(40));  // the 40th and the 61st of 100 hold it with 95 %
  CHECK(hundred.high == doctest::Approx(61));
}

TEST_CASE("of few samples the interval is all of them") {
  const Estimate three = estimate({5, 1, 3});
  CHECK(three.median == 3);
  CHECK(three.low == 1);
  CHECK(three.high == 5);
  CHECK(estimate({}).median == 0);
  CHECK(estimate({7}).low == 7);
}

TEST_CASE("ratios go block by block") {
  CHECK(ratios({6, 8}, {3, 2}) == std::vector<double>{2, 4});
  CHECK(ratios({1}, {0}) == std::vector<double>{0});
  CHECK_THROWS_AS(ratios({1, 2}, {1}), ContractViolation);
}

TEST_CASE("every copy copies rows of any length at any address, and nothing beside them") {
  const auto from = counted_bytes(4200);
  for (const CopyKind kind : kCopyKinds) {
    for (const std::size_t length : {0U, 1U, 37U, 64U, 255U, 256U, 1027U, 4096U}) {
      for (const std::size_t shift : {0U, 1U, 63U}) {
        std::vector<std::byte> to(length + 128, std::byte{0xEE});
        copy_by(kind, std::span{to}.subspan(shift, length), std::span{from}.subspan(shift, length));
        finish_copies();
        CAPTURE(length);
        CAPTURE(shift);
        CHECK(std::equal(to.begin() + static_cast<std::ptrdiff_t>(shift),
                         to.begin() + static_cast<std::ptrdiff_t>(shift + length),
                         from.begin() + static_cast<std::ptrdiff_t>(shift)));
        CHECK(std::count(to.begin() + static_cast<std::ptrdiff_t>(shift + length), to.end(), std::byte{0xEE}) ==
              static_cast<std::ptrdiff_t>(128 - shift));
        CHECK(std::count(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(shift), std::byte{0xEE}) ==
              static_cast<std::ptrdiff_t>(shift));
      }
    }
  }
}

TEST_CASE("a read misses no byte of any row, in either order") {
  for (const std::size_t length : {1U, 37U, 300U, 1024U}) {
    auto first = counted_bytes(length);
    auto second = counted_bytes(length + 5);
    const auto read = [&](ReadKind kind) {
      const std::array<RowSpan, 2> rows{RowSpan{first}, RowSpan{second}.subspan(5)};
      return read_rows(kind, rows);
    };
    const std::uint64_t before = read(ReadKind::row_by_row);
    CHECK(read(ReadKind::side_by_side) == before);
    for (std::size_t at = 0; at < length; ++at) {
      for (std::vector<std::byte>* row : {&first, &second}) {
        std::byte& byte = (*row)[at + (row == &second ? 5 : 0)];
        byte ^= std::byte{0x10};
        CHECK(read(ReadKind::row_by_row) != before);
        CHECK(read(ReadKind::side_by_side) != before);
        byte ^= std::byte{0x10};
      }
    }
  }
  CHECK(read_rows(ReadKind::side_by_side, {}) == 0);
}

TEST_CASE("a detour is as predicted within 15 %") {
  for (const double gain : {2.14, 2.5, 2.86}) CHECK(is_as_predicted(gain, 2.5));
  for (const double gain : {0.0, 2.12, 2.88, 3.0}) CHECK_FALSE(is_as_predicted(gain, 2.5));
}

TEST_CASE("a report is verified where every row is") {
  BenchReport report;
  report.rows.push_back({.name = "barrier", .ranks = 2, .ours_us = 1.5, .verified = true});
  CHECK(report.verified());
  report.rows.push_back({.name = "start", .ranks = 2, .verified = false});
  CHECK_FALSE(report.verified());
  const auto json = to_json(report, "shmoe bench barrier", look_at_machine());
  CHECK(json["rows"][0]["ours_us"] == 1.5);
  CHECK(json["rows"][0]["peer_us"].is_null());
  CHECK(json["rows"][1]["verified"] == false);
}
