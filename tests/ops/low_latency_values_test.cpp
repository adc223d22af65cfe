// What users reported of the numbers of low-latency paths: counts, sums and scales. See tests/cases.md.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tests/ops/low_latency_fixture.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using test::LowLatencyBench;
using test::LowLatencyCase;
using test::LowLatencyExpected;
using test::LowLatencyStep;
using test::make_case;
using test::on_low_latency_ranks;
using test::Setup;
using Rows = std::vector<std::vector<std::byte>>;  // of each rank

namespace {

/// What each rank's combine returns.
Rows low_latency_sums(const test::EpCase& base, const Setup& setup) {
  const LowLatencyCase input{.base = base};
  const LowLatencyExpected expected = expect(input);
  Rows sums(base.problem.ranks.size());
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables;
    LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
    if (auto sent = ops::dispatch_low_latency(bench.comm, step.dispatch_args(), tables); !sent) return sent;
    step.run_experts();
    step.clear_sums();
    std::vector<std::byte>& own = sums[bench.comm.rank().index()];
    own.resize(expected.combined[bench.comm.rank().index()].size());
    ops::CombineLowLatencyArgs args = step.combine_args();
    args.x = own;
    return ops::combine_low_latency(bench.comm, args);
  };
  CHECK(on_low_latency_ranks(input, setup, body) == "");
  return sums;
}

/// A rank's rows of int8 with their scales, opened: [rows, H].
std::vector<float> opened_rows(LowLatencyBench& bench, const LowLatencyCase& input, std::int64_t rows) {
  const auto hidden = static_cast<std::size_t>(input.base.hidden);
  const auto all = static_cast<std::size_t>(rows);
  const auto q = bench.comm.local<std::int8_t>(bench.rooms[0].expand_x, all * hidden);
  const auto scales = bench.comm.local<float>(bench.rooms[0].dynamic_scales, all);
  std::vector<float> x;
  for (std::size_t i = 0; i < q.size(); ++i) {
    CHECK(std::isfinite(scales[i / hidden]));
    if (scales[i / hidden] == 0.0F) CHECK(q[i] == 0);
    x.push_back(static_cast<float>(q[i]) * scales[i / hidden]);
  }
  return x;
}

/// The smallest number above zero of a type.
float least_of(DType dtype) {
  if (dtype == DType::fp16) return 0x1p-24F;
  return dtype == DType::bf16 ? 0x1p-133F : std::numeric_limits<float>::denorm_min();
}

/// One row each: zeros; the least number and zeros; a few times the least; 127 and its parts; a large one and a least one.
std::vector<float> extreme_tokens(DType dtype) {
  const float least = least_of(dtype);
  return {0, 0, 0, 0, least, 0, 0, -least, 5 * least, -3 * least, 0, least, 127, -64, 1, 0, 32768, least, -32768, 0};
}

}  // namespace

TEST_CASE("T35: low latency, all but ten tokens of 2304 choose the same eight of 288 experts, on 16 ranks") {
  const auto same = [](std::int64_t rank, std::int64_t token, std::int64_t k) {
    return token < 10 ? (rank * 31 + token * 7 + k * 36) % 288 : 3 + k * 17;
  };
  const LowLatencyCase input{
      .base =
          make_case(35, {.experts = 288, .topk = 8, .hidden = 1, .tokens = std::vector<std::int64_t>(16, 2304)}, same)};
  std::vector<std::vector<std::int32_t>> gathered(16, std::vector<std::int32_t>(288));  // [R, E], from the ids
  std::vector<std::int64_t> counts(288);
  for (std::size_t rank = 0; rank < 16; ++rank) {
    for (std::int64_t pair = 0; pair < 2304 * 8; ++pair) {
      const auto expert = static_cast<std::size_t>(same(static_cast<std::int64_t>(rank), pair / 8, pair % 8));
      ++gathered[rank][expert];
      ++counts[expert];
    }
  }
  const LowLatencyExpected expected = expect(input);
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables;
    LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
    std::string found;
    if (Result<void> ran = step.run(found); !ran) return ran;
    CHECK(found == "");
    const auto first = counts.begin() + bench.comm.rank().value() * 18;
    CHECK(tables.expert_token_nums == std::vector<std::int64_t>(first, first + 18));
    CHECK(tables.recv_rows == std::accumulate(first, first + 18, std::int64_t{0}));
    for (std::size_t rank = 0; rank < 16; ++rank) {
      const auto row = tables.recv_data.begin() + static_cast<std::ptrdiff_t>(rank * 288);
      CHECK(std::equal(gathered[rank].begin(), gathered[rank].end(), row));
    }
    return {};
  };
  CHECK(on_low_latency_ranks(input, {.cores = 2, .decorate = test::pauses_of_run()}, body) == "");
}

TEST_CASE("T119: low latency, a token's sum is the same in any batch and any schedule, 50 times") {
  const test::EpCase input = make_case(119, {.topk = 6, .hidden = 24, .tokens = {12, 12, 12}, .dropped_percent = 5});
  const Rows right = low_latency_sums(input, {});
  CHECK(right == expect(LowLatencyCase{.base = input}).combined);
  const std::uint64_t seed = test::seed_of_run();
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::size_t row = input.row_bytes();
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<std::int64_t> order(12);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    order.resize(1 + random() % 12);
    const Rows sums = low_latency_sums(test::rebatched(input, order),
                                       {.cores = 1 + repeat % 3,
                                        .weak_seed = repeat % 4 == 0 ? random() | 1 : 0,
                                        .decorate = repeat % 4 == 0 ? nullptr : test::pauses(random())});
    for (std::size_t rank = 0; rank < right.size(); ++rank) {
      REQUIRE(sums[rank].size() == order.size() * row);
      for (std::size_t t = 0; t < order.size(); ++t) {
        const auto seen = sums[rank].begin() + static_cast<std::ptrdiff_t>(t * row);
        const auto alone = right[rank].begin() + order[t] * static_cast<std::ptrdiff_t>(row);
        CHECK(std::equal(seen, seen + static_cast<std::ptrdiff_t>(row), alone));
      }
    }
  }
}

// Scales are fp32 here, never a power of two in a byte: what is left of the case is that no row gets a scale that is zero,
// infinite or no number, and that no row keeps a step from ending.
TEST_CASE("T121: int8 rows of zeros, of subnormal and of large numbers open to what was sent") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const std::vector<float> numbers = extreme_tokens(dtype);
    const LowLatencyCase input{
        .base = make_case(
            121, {.experts = 2, .topk = 1, .hidden = 4, .dtype = dtype, .tokens = {5, 5}, .quant = ops::Quant::int8},
            [](std::int64_t rank, std::int64_t, std::int64_t) { return 1 - rank; })};
    const LowLatencyExpected expected = expect(input);
    std::vector<std::byte> x(numbers.size() * size_of(dtype).value());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ops::reference::store(dtype, x, static_cast<std::int64_t>(i), numbers[i]);
    }
    const auto body = [&](LowLatencyBench& bench) -> Result<void> {
      ops::LowLatencyTables tables;
      LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
      for (int call = 0; call < 3; ++call) {
        ops::DispatchLowLatencyArgs args = step.dispatch_args();
        args.x = x;
        if (auto sent = ops::dispatch_low_latency(bench.comm, args, tables); !sent) return sent;
        const std::vector<float> seen = opened_rows(bench, input, tables.recv_rows);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const auto row = std::span{numbers}.subspan(i / 4 * 4, 4);
          const float largest = std::fabs(*std::ranges::max_element(row, {}, [](float v) { return std::fabs(v); }));
          CHECK(std::fabs(seen[i] - numbers[i]) <= largest / 127 + 1e-12F);
        }
        step.run_experts();
        step.clear_sums();
        if (auto summed = ops::combine_low_latency(bench.comm, step.combine_args()); !summed) return summed;
      }
      return {};
    };
    for (const Profile& profile : {kSafe, kFaithful202607}) {
      for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
        CHECK(on_low_latency_ranks(input, {.profile = profile, .decorate = decorate}, body) == "");
      }
    }
  }
}

TEST_CASE("T121: scales that are powers of two, given by the caller, are exact") {
  LowLatencyCase input{
      .base = make_case(121, {.experts = 6, .hidden = 33, .tokens = {4, 0, 3}, .quant = ops::Quant::int8})};
  for (const float scale : {0x1p-126F, 0x1p-6F, 1.0F, 0x1p100F}) {
    input.static_scale = scale;
    input.scales.clear();
    for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
      CHECK(run_low_latency(input, {.cores = 2, .steps = 2, .decorate = decorate}) == "");
      input.scales.assign(static_cast<std::size_t>(input.base.problem.experts * input.base.hidden), 0.5F);
    }
  }
}
