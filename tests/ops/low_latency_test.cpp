// The low-latency path on threads as ranks: the worked example number by number, random cases against the sequential
// reference, and calls in flight.
// SHMOE_TEST_SEED=n draws the last of the random cases.

#include <doctest/doctest.h>

#include "ops/low_latency/buffers.hpp"
#include "tests/ops/difference.hpp"
#include "tests/ops/example_run.hpp"
#include "tests/ops/low_latency_fixture.hpp"
#include "tests/ops/refusal.hpp"
#include "tests/runtime/pausing_fabric.hpp"
#include "tests/seed.hpp"

using namespace shmoe;
using test::check_told;
using test::LowLatencyBench;
using test::LowLatencyCase;
using test::LowLatencyExpected;
using test::LowLatencyStep;
using test::on_low_latency_ranks;
using test::plain_low_latency;
using test::Setup;
using I32 = std::vector<std::int32_t>;
using I64 = std::vector<std::int64_t>;
using Floats = std::vector<float>;

namespace {

/// Of a rank's pairs in the worked example.
I64 places_of(const ops::LowLatencyTables& tables, Rank me) {
  I64 places;
  for (std::int64_t pair = 0; pair < 6; ++pair) places.push_back(tables.place_of(pair, me)->row);
  return places;
}

Floats numbers(std::span<const std::byte> bf16) {
  Floats values;
  for (std::size_t i = 0; i < bf16.size() / 2; ++i) {
    values.push_back(ops::reference::load(DType::bf16, bf16, static_cast<std::int64_t>(i)));
  }
  return values;
}

/// Rows of four that count on from these.
Floats rows_from(const Floats& firsts) {
  Floats values;
  for (const float first : firsts) {
    for (int j = 0; j < 4; ++j) values.push_back(first + static_cast<float>(j));
  }
  return values;
}

}  // namespace

TEST_CASE("low latency: the worked example, number by number") {
  for (const Profile& profile : {kSafe, kFaithful202607}) {
    for (const bool counts : {true, false}) {
      const auto run =
          test::run_low_latency_example(profile, counts ? ops::GroupList::counts : ops::GroupList::cumulative);
      REQUIRE_MESSAGE(run, to_string(run.error()));
      const ops::LowLatencyTables& zero = (*run)[0].tables;
      const ops::LowLatencyTables& one = (*run)[1].tables;
      for (const ops::LowLatencyTables* own : {&zero, &one}) {
        CHECK(own->ep_recv_count == I64{1, 3, 4, 7, 3, 3, 4, 5});
        CHECK(own->recv_data == I32{1, 1, 3, 1, 2, 3, 0, 1});
        CHECK(own->rows_of == I64{7, 5});
      }
      CHECK(zero.expand_idx == I32{0, 0, 1, 0, 0, 2});
      CHECK(one.expand_idx == I32{0, 0, 0, 1, 2, 1});
      CHECK(test::low_latency_bases(zero, Rank{0}) == I64{0, 0, 0, 3, 3, 0});
      CHECK(test::low_latency_bases(one, Rank{1}) == I64{4, 4, 1, 4, 4, 1});
      CHECK(places_of(zero, Rank{0}) == I64{0, 0, 1, 3, 3, 2});
      CHECK(places_of(one, Rank{1}) == I64{4, 4, 1, 5, 6, 2});
      CHECK(zero.expert_token_nums == (counts ? I64{3, 4} : I64{3, 7}));
      CHECK(one.expert_token_nums == (counts ? I64{3, 2} : I64{3, 5}));
      CHECK(numbers((*run)[0].received) == rows_from({1, 17, 21, 5, 13, 17, 21}));
      CHECK(numbers((*run)[1].received) == rows_from({1, 5, 9, 9, 13}));
      CHECK(numbers((*run)[0].combined) == Floats{1.5F, 3, 4.5F, 6, 12.5F, 15, 17.5F, 20, 32.5F, 36.25F, 40, 43.5F});
      CHECK(numbers((*run)[1].combined) == Floats{39, 42, 45, 48, 29.75F, 31.5F, 33.25F, 35, 39.5F, 41.25F, 43, 45});
    }
  }
}

TEST_CASE("low latency: random cases against the sequential reference") {
  const std::uint64_t fresh = test::fresh_seed();
  std::uint64_t seed = 1;
  for (const std::int32_t ranks : {1, 2, 3, 4, 7}) {
    for (std::int32_t cores = 1; cores <= 5; ++cores, ++seed) {
      const std::vector<LowLatencyCase> cases = {test::draw_low_latency(seed, ranks),
                                                 test::draw_low_latency(fresh + seed, ranks)};
      const Setup setup{.cores = cores, .views = seed % 2 == 0, .weak_seed = seed % 3 == 0 ? seed : 0, .steps = 4};
      CHECK(test::run_low_latency(cases, setup) == "");
    }
  }
}

TEST_CASE("low latency: random cases with pauses before every signal and every wait") {
  const std::uint64_t seed = test::fresh_seed();
  for (const std::int32_t ranks : {1, 2, 3, 4, 7}) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      const auto drawn = static_cast<std::uint64_t>(ranks) * 10 + i;
      const std::vector<LowLatencyCase> cases = {test::draw_low_latency(drawn, ranks),
                                                 test::draw_low_latency(seed + drawn, ranks)};
      const auto cores = static_cast<std::int32_t>(1 + drawn % 4);
      CHECK(test::run_low_latency(cases,
                                  {.cores = cores, .views = i == 0, .steps = 4, .decorate = test::pauses(seed)}) == "");
    }
  }
}

TEST_CASE("low latency: masks of tokens and of pairs, anywhere") {
  LowLatencyCase input = plain_low_latency(5, {4, 3});
  input.mask = {{0, 1, 0, 1}, {1, 0, 1}};
  CHECK(test::run_low_latency(input, {.cores = 2}) == "");
  input.mask = {{0, 1, 1, 0, 0, 0, 1, 1}, {1, 0, 0, 0, 0, 1}};
  CHECK(test::run_low_latency(input, {.cores = 3}) == "");
  input.mask = {{0, 0, 0, 0}, {0, 0, 0}};
  CHECK(test::run_low_latency(input, {.cores = 1}) == "");
}

TEST_CASE("low latency: which copy of a shared expert gets a token") {
  LowLatencyCase input = plain_low_latency(6, {1, 1, 1, 1, 1}, 3, 1);
  input.shared = {.experts = 2, .ranks = 4};
  input.base.problem.owner = {4, 4, 4};
  const LowLatencyExpected expected = expect(input);
  // Rows of ranks 0..4: ranks 0 2 4, then 1 3, and once more for the second expert; all routed pairs at rank 4.
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(expected.answer.rows[rank].size() == (rank % 2 == 0 ? 3U : 2U));
    for (const auto& row : expected.answer.rows[rank]) CHECK(row.source % 2 == static_cast<std::int64_t>(rank % 2));
  }
  CHECK(test::run_low_latency(input, {.cores = 2, .steps = 2}) == "");
  input.mask = {{1}, {0}, {1}, {0}, {1}};
  CHECK(test::run_low_latency(input, {.cores = 2}) == "");
  const auto behind = ops::experts_behind({.experts = 1, .ranks = 2}, 5, 4);
  REQUIRE(behind);
  CHECK(behind->owner(Expert{0}) == Rank{2});
  CHECK(behind->owner(Expert{4}) == Rank{3});
  CHECK(!ops::experts_behind({.experts = 1, .ranks = 2}, 5, 2));
}

TEST_CASE("S13: an expert that occurs twice in token 0 has two rows; published, the second covers the first") {
  LowLatencyCase input = plain_low_latency(13, {2, 1});
  for (std::int64_t& id : input.base.problem.ranks[0].topk_idx) id = 5;
  CHECK(test::run_low_latency(input, {.cores = 2}) == "");

  const LowLatencyExpected expected = expect(input);
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables;
    LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
    step.clear_rows();
    if (Result<void> met = bench.comm.barrier(); !met) return met;
    if (Result<void> sent = ops::dispatch_low_latency(bench.comm, step.dispatch_args(), tables); !sent) return sent;
    if (bench.comm.rank() == Rank{0}) {
      CHECK(tables.expand_idx == I32{0, 0, 2, 3});
    } else {
      const auto row = static_cast<std::size_t>(expected.answer.put_offset[5 * 2]) + 1;
      const std::size_t size = input.base.row_bytes();
      for (const std::byte b :
           bench.comm.local<std::byte>(bench.rooms[0].expand_x, (row + 1) * size).subspan(row * size)) {
        CHECK(b == test::kCanary);
      }
    }
    return {};
  };
  CHECK(on_low_latency_ranks(input, {.profile = kFaithful202607}, body) == "");
}

TEST_CASE("S14: a row of zeros as int8") {
  LowLatencyCase input{
      .base = test::make_case(14, {.experts = 4, .topk = 1, .hidden = 8, .tokens = {1, 1}, .quant = ops::Quant::int8})};
  for (const Profile& profile : {kSafe, kFaithful202607}) {
    const LowLatencyExpected expected = expect(input);
    const float scale = profile == kSafe ? 1.0F / (127.0F / 1e-12F) : 0.0F;
    const auto body = [&](LowLatencyBench& bench) -> Result<void> {
      ops::LowLatencyTables tables;
      const LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
      ops::DispatchLowLatencyArgs args = step.dispatch_args();
      const std::vector<std::byte> zeros(args.x.size());
      args.x = zeros;
      if (Result<void> sent = ops::dispatch_low_latency(bench.comm, args, tables); !sent) return sent;
      const auto rows = static_cast<std::size_t>(tables.recv_rows);
      for (const std::byte q : bench.comm.local<std::byte>(bench.rooms[0].expand_x, rows * 8)) CHECK(q == std::byte{0});
      for (const float seen : bench.comm.local<float>(bench.rooms[0].dynamic_scales, rows)) CHECK(seen == scale);
      return {};
    };
    CHECK(on_low_latency_ranks(input, {.profile = profile}, body) == "");
  }
}

TEST_CASE("static int8 saturates, and rounds ties to even") {
  const float x[] = {300.0F, -300.0F, 1.25F, 0.75F, -1.25F, 0.0F};
  CHECK(ops::reference::quantise(DType::fp32, std::as_bytes(std::span{x}), {}, 0.5F).q ==
        std::vector<std::int8_t>{127, -128, 2, 2, -2, 0});
  LowLatencyCase input{.base = test::make_case(
                           3, {.experts = 4, .topk = 2, .hidden = 33, .tokens = {3, 0, 2}, .quant = ops::Quant::int8})};
  input.static_scale = 0.01F;
  CHECK(test::run_low_latency(input, {.cores = 2}) == "");
}

TEST_CASE("the published profile computes the same where it has no hole") {
  for (const Profile& profile : {kFaithful202607, kFaithful202608}) {
    LowLatencyCase input = plain_low_latency(8, {3, 2, 4}, 7);
    CHECK(test::run_low_latency(input, {.profile = profile, .steps = 5}) == "");
    input = {.base = test::make_case(
                 9, {.experts = 4, .topk = 1, .hidden = 40, .tokens = {3, 2}, .quant = ops::Quant::int8})};
    input.published_quant = true;
    CHECK(test::run_low_latency(input, {.profile = profile, .steps = 3}) == "");
  }
}

TEST_CASE("S18: rounds beyond 2^24 and beyond 2^32") {
  const LowLatencyCase input = plain_low_latency(18, {3, 2, 1}, 5);
  for (const std::uint64_t first :
       {(std::uint64_t{1} << 24) - 2, (std::uint64_t{1} << 32) - 2, std::uint64_t{1} << 48}) {
    const auto before = [&](runtime::Communicator& comm) {
      const auto region = ops::LowLatencyRegion::find(comm.slots(), comm.map());
      for (Core core{0}; core.value() < comm.cores(); ++core) {
        comm.local<std::uint64_t>(region->rounds_of(core), 1)[0] = first;
      }
    };
    CHECK(test::run_low_latency(input, {.cores = 2, .steps = 6, .before = before}) == "");
  }
  CHECK(static_cast<float>(16777216) == static_cast<float>(16777217));
}

TEST_CASE("S4: combine after combine, and again") {
  const LowLatencyCase input = plain_low_latency(4, {3, 2, 2}, 5);
  const LowLatencyExpected expected = expect(input);
  for (const std::int32_t cores : {1, 3}) {
    const auto body = [&](LowLatencyBench& bench) -> Result<void> {
      ops::LowLatencyTables tables;
      LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
      std::string found;
      if (Result<void> ran = step.run(found); !ran) return ran;
      for (int again = 0; again < 9; ++again) {
        step.clear_sums();
        if (Result<void> summed = ops::combine_low_latency(bench.comm, step.combine_args()); !summed) return summed;
        if (found.empty()) found = step.sums_difference();
      }
      return test::no_difference(found);
    };
    for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
      CHECK(on_low_latency_ranks(input, {.cores = cores, .decorate = decorate}, body) == "");
    }
  }
}

TEST_CASE("two calls in flight, on halves by turns") {
  const LowLatencyCase inputs[2] = {plain_low_latency(20, {3, 2, 4}, 7), plain_low_latency(21, {1, 5, 0}, 7)};
  const LowLatencyExpected expected[2] = {expect(inputs[0]), expect(inputs[1])};
  LowLatencyCase largest = inputs[0];
  for (auto& rank : largest.base.problem.ranks) {
    rank = {.tokens = 6, .topk_idx = std::vector<std::int64_t>(12, 0), .weights = std::vector<float>(12, 1.0F)};
  }
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables[2];
    std::string found;
    for (int round = 0; round < 5; ++round) {
      LowLatencyStep steps[2] = {{bench.comm, inputs[0], expected[0], bench.rooms[0], tables[0]},
                                 {bench.comm, inputs[1], expected[1], bench.rooms[1], tables[1]}};
      for (int i = 0; i < 2; ++i) {
        steps[i].clear_rows();
        if (auto sent = ops::dispatch_begin(bench.comm, steps[i].dispatch_args(), tables[i]); !sent) return sent;
      }
      for (int i = 0; i < 2; ++i) {
        if (auto received = ops::dispatch_finish(bench.comm, tables[i]); !received) return received;
        if (found.empty()) found = steps[i].received_difference();
        steps[i].run_experts();
        steps[i].clear_sums();
        if (auto told = ops::combine_begin(bench.comm, steps[i].combine_args()); !told) return told;
      }
      for (int i = 0; i < 2; ++i) {
        if (auto summed = ops::combine_finish(bench.comm, steps[i].combine_args()); !summed) return summed;
        if (found.empty()) found = steps[i].sums_difference();
      }
    }
    return test::no_difference(found);
  };
  for (const std::int32_t cores : {1, 2, 4}) {
    for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
      CHECK(on_low_latency_ranks(largest, {.cores = cores, .decorate = decorate}, body) == "");
    }
  }
}

TEST_CASE("a third call in flight is refused on every rank, and the two go on") {
  const LowLatencyCase input = plain_low_latency(22, {2, 2});
  const LowLatencyExpected expected = expect(input);
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables[3];
    LowLatencyStep first(bench.comm, input, expected, bench.rooms[0], tables[0]);
    LowLatencyStep second(bench.comm, input, expected, bench.rooms[1], tables[1]);
    first.clear_rows();
    second.clear_rows();
    if (auto sent = ops::dispatch_begin(bench.comm, first.dispatch_args(), tables[0]); !sent) return sent;
    if (auto sent = ops::dispatch_begin(bench.comm, second.dispatch_args(), tables[1]); !sent) return sent;
    const Result<void> third = ops::dispatch_low_latency(bench.comm, first.dispatch_args(), tables[2]);
    check_told(third, Errc::invalid_argument, "low-latency dispatch 3 begins while an older one is in flight");
    const Result<void> same = ops::dispatch_begin(bench.comm, first.dispatch_args(), tables[0]);
    check_told(same, Errc::invalid_argument, "these tables belong to low-latency dispatch 1, which is in flight");
    if (auto received = ops::dispatch_finish(bench.comm, tables[0]); !received) return received;
    if (auto received = ops::dispatch_finish(bench.comm, tables[1]); !received) return received;
    CHECK(first.received_difference() == "");
    CHECK(second.received_difference() == "");
    const Result<void> nothing = ops::dispatch_finish(bench.comm, tables[1]);
    check_told(nothing, Errc::invalid_argument, "no rows are on their way");
    return {};
  };
  CHECK(on_low_latency_ranks(input, {.cores = 2}, body) == "");
}

TEST_CASE("rows that are read before dispatch_finish") {
  const LowLatencyCase input = plain_low_latency(23, {2, 2});
  const LowLatencyExpected expected = expect(input);
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    auto buffers = ops::LowLatencyBuffers::allocate(bench.comm, {.capacity = 8, .hidden = 9});
    if (!buffers) return buffers.error();
    const ops::LowLatencyBuffers::Half& half = buffers->next();
    ops::LowLatencyTables tables;
    LowLatencyStep step(bench.comm, input, expected, {half.expand_x, half.expert_out, half.dynamic_scales}, tables);
    if (auto sent = ops::dispatch_begin(bench.comm, step.dispatch_args(), tables); !sent) return sent;
    const auto early = [&] { return half.received(tables).size(); };
    CHECK_THROWS_WITH_AS(early(), doctest::Contains("call dispatch_finish first"), ContractViolation);
    step.clear_sums();
    const Result<void> summed = ops::combine_low_latency(bench.comm, step.combine_args());
    check_told(summed, Errc::invalid_argument, "rank 0: the rows of low-latency dispatch 1 have not been received");
    if (auto received = ops::dispatch_finish(bench.comm, tables); !received) return received;
    CHECK(half.received(tables).size() == expected.received[bench.comm.rank().index()].size());
    CHECK(half.answers(tables).size() == half.received(tables).size());
    CHECK(half.scales(tables).empty());
    const ops::LowLatencyBuffers::Half& other = buffers->next();
    const auto wrong_half = [&] { return other.received(tables).size(); };
    CHECK_THROWS_WITH_AS(wrong_half(), doctest::Contains("take the half"), ContractViolation);
    if (Result<void> met = bench.comm.barrier(); !met) return met;
    return buffers->release();
  };
  CHECK(on_low_latency_ranks(input, {}, body) == "");
}

TEST_CASE("the low-latency path leaves the rows and sums of the normal path") {
  const LowLatencyCase input = plain_low_latency(60, {5, 0, 3, 7}, 10, 3);
  const LowLatencyExpected expected = expect(input);
  const auto normal = test::outcomes_of(input.base, {.cores = 2});
  REQUIRE_MESSAGE(normal, to_string(normal.error()));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const test::Outcome& outcome = (*normal)[rank];
    CHECK(std::equal(expected.received[rank].begin(), expected.received[rank].end(), outcome.received.begin()));
    CHECK(expected.combined[rank] == outcome.combined);
  }
  CHECK(test::run_low_latency(input, {.cores = 2}) == "");
}
