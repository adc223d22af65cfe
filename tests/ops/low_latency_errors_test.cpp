// The low-latency path, asked for what it does not do: one error on every rank, before any row is written, and the world
// works on afterwards.

#include <doctest/doctest.h>

#include "tests/ops/difference.hpp"
#include "tests/ops/low_latency_fixture.hpp"
#include "tests/ops/refusal.hpp"

using namespace shmoe;
using test::check_told;
using test::LowLatencyBench;
using test::LowLatencyCase;
using test::LowLatencyExpected;
using test::LowLatencyStep;
using test::on_low_latency_ranks;
using test::plain_low_latency;
using test::Setup;

namespace {

using SpoilDispatch = std::function<void(Rank, ops::DispatchLowLatencyArgs&)>;
using SpoilCombine = std::function<void(Rank, ops::CombineLowLatencyArgs&)>;

/// What every rank is told when some pass other arguments; then a good step must work. Empty where ranks differ.
Error refusal(const LowLatencyCase& input, const SpoilDispatch& dispatch, const SpoilCombine& combine,
              const Setup& setup = {.cores = 2}) {
  const LowLatencyExpected expected = expect(input);
  std::vector<Error> told(static_cast<std::size_t>(input.base.ranks()));
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables;
    LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
    step.clear_rows();
    ops::DispatchLowLatencyArgs args = step.dispatch_args();
    if (dispatch) dispatch(bench.comm.rank(), args);
    Result<void> done = ops::dispatch_low_latency(bench.comm, args, tables);
    if (dispatch) {
      const auto rows = bench.comm.local<std::byte>(bench.rooms[0].expand_x, expected.received[0].size());
      if (Result<void> met = bench.comm.barrier(); !met) return met;
      for (const std::byte b : rows) CHECK(b == test::kCanary);
    } else if (done) {
      step.run_experts();
      step.clear_sums();
      ops::CombineLowLatencyArgs sums = step.combine_args();
      combine(bench.comm.rank(), sums);
      done = ops::combine_low_latency(bench.comm, sums);
    }
    if (!done) told[bench.comm.rank().index()] = done.error();
    std::string found;
    LowLatencyStep good(bench.comm, input, expected, bench.rooms[1], tables);
    if (Result<void> ran = good.run(found); !ran) return ran;
    return test::no_difference(found);
  };
  CHECK(on_low_latency_ranks(input, setup, body) == "");
  for (const Error& error : told) {
    CHECK(error.code == told.front().code);
    CHECK(error.context == told.front().context);
    CHECK(error.where == told.front().where);
  }
  return told.front();
}

Error dispatch_refusal(const LowLatencyCase& input, const SpoilDispatch& spoil) { return refusal(input, spoil, {}); }
Error combine_refusal(const LowLatencyCase& input, const SpoilCombine& spoil) { return refusal(input, {}, spoil); }

/// Of one rank of a published profile, which returns alone; nobody else calls.
Error published_refusal(const LowLatencyCase& input, const SpoilDispatch& spoil, std::int32_t cores = 1) {
  const LowLatencyExpected expected = expect(input);
  Error told;
  const Setup setup{.cores = cores, .profile = kFaithful202607};
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    if (bench.comm.rank() != Rank{0}) return {};
    ops::LowLatencyTables tables;
    const LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
    ops::DispatchLowLatencyArgs args = step.dispatch_args();
    spoil(bench.comm.rank(), args);
    const Result<void> done = ops::dispatch_low_latency(bench.comm, args, tables);
    if (!done) told = done.error();
    return {};
  };
  CHECK(on_low_latency_ranks(input, setup, body) == "");
  return told;
}

}  // namespace

TEST_CASE("a call that differs on one rank: one error on all, and no row written") {
  const LowLatencyCase input = plain_low_latency(30, {3, 2, 2}, 6);
  check_told(dispatch_refusal(input, [](Rank rank, auto& args) { args.capacity += rank == Rank{1} ? 1 : 0; }),
             Errc::mismatch, "capacity is");
  check_told(
      dispatch_refusal(
          input, [](Rank rank, auto& args) { args.quant = rank == Rank{2} ? ops::Quant::int8 : ops::Quant::none; }),
      Errc::mismatch, "quantisation is 1 on rank 2 and 0 on rank 0");
  check_told(combine_refusal(input, [](Rank rank, auto& args) { args.capacity += rank == Rank{0} ? 1 : 0; }),
             Errc::mismatch, "on rank 1 and");
}

TEST_CASE("arguments that do not fit: one error on all, naming the rank, and no row written") {
  const LowLatencyCase input = plain_low_latency(31, {3, 2, 2}, 6);
  const std::vector<std::int32_t> bad_ids = {0, 1, 6, 2};
  const std::vector<std::uint8_t> bad_mask = {1, 2};
  const std::vector<std::uint8_t> long_mask = {1, 1, 1};
  const std::vector<float> scales(3, 1.0F);
  const auto on_last = [](auto spoil) {
    return [spoil](Rank rank, ops::DispatchLowLatencyArgs& args) {
      if (rank == Rank{2}) spoil(args);
    };
  };
  const auto refused = [&](auto spoil, std::string_view text) {
    check_told(dispatch_refusal(input, on_last(spoil)), Errc::invalid_argument, text);
  };
  refused([&](auto& args) { args.expert_ids = bad_ids; }, "rank 2: token 1, k 0: expert id 6 is not in [-1, 6)");
  refused([&](auto& args) { args.expert_ids = args.expert_ids.first(3); },
          "3 expert ids are no whole number of tokens");
  refused([&](auto& args) { args.x = args.x.first(7); }, "x has 7 bytes");
  refused([&](auto& args) { args.active_mask = bad_mask; }, "entry 1 of the active mask is 2");
  refused([&](auto& args) { args.active_mask = long_mask; }, "the active mask has 3 entries");
  refused([&](auto& args) { args.scales = scales; }, "go with int8 rows");
  refused([&](auto& args) { args.topk = 7; }, "top-k is 7 of 6 experts");
  refused([&](auto& args) { args.hidden = 0; }, "hidden is 0 and the capacity");
  refused([&](auto& args) { args.shared = {.experts = 2, .ranks = 1}; }, "2 shared experts on 1 of 3 ranks");
  refused([&](auto& args) { args.tp_world_size = 2; }, "tp domains of several ranks are not offered");
  refused([&](auto& args) { args.comm_alg = ops::CommAlg::fullmesh_v2; }, "fullmesh_v2 is not offered");
  refused([&](auto& args) { args.expand_x = Offset{200 * 1024}; }, "neither in the heap");
  check_told(dispatch_refusal(input, [](Rank, auto& args) { args.capacity = 1; }), Errc::capacity_exceeded,
             "expand_x holds 1");
  const auto sums_refused = [&](auto spoil, std::string_view text) {
    const Error error = combine_refusal(input, [&](Rank rank, ops::CombineLowLatencyArgs& args) {
      if (rank == Rank{1}) spoil(args);
    });
    check_told(error, Errc::invalid_argument, text);
  };
  sums_refused([&](auto& args) { args.expert_scales = scales; }, "rank 1: 3 weights for 4 expert ids");
  sums_refused([&](auto& args) { args.x = args.x.first(5); }, "x has 5 bytes");
  sums_refused([&](auto& args) { args.output = ops::CombineOutput::reduce_scatter; },
               "reduce-scatter output is not offered");
  sums_refused([&](auto& args) { args.tp_world_size = 2; }, "tp domains");
  sums_refused([&](auto& args) { args.ori_x = args.x.first(5); }, "ori_x has 5 bytes");
  sums_refused([&](auto& args) { args.shared_expert_x = args.x.first(5); }, "shared_expert_x has 5 bytes");
}

TEST_CASE("T83: shared experts without a rank of their own, or with none left for the routed ones, are refused") {
  const LowLatencyCase input = plain_low_latency(83, {3, 2, 2}, 6);
  const auto refused = [&](ops::SharedExperts shared, std::string_view text) {
    check_told(dispatch_refusal(input, [&](Rank, auto& args) { args.shared = shared; }), Errc::invalid_argument, text);
    check_told(dispatch_refusal(input,
                                [&](Rank rank, auto& args) {
                                  if (rank == Rank{1}) args.shared = shared;
                                }),
               Errc::invalid_argument, text);
  };
  refused({.experts = 1, .ranks = 0}, "1 shared experts on 0 of 3 ranks: the ranks are a multiple of the experts");
  refused({.experts = 0, .ranks = 1}, "0 shared experts on 1 of 3 ranks");
  refused({.experts = 1, .ranks = 3},
          "1 shared experts on 3 of 3 ranks: the ranks are a multiple of the experts, and "
          "one is left for routed experts at least");
  CHECK(ops::experts_behind({.experts = 1, .ranks = 3}, 6, 3).error().context ==
        "6 routed experts on 3 ranks, of which 3 hold shared experts: leave one rank for a routed expert at least");
}

TEST_CASE("the published profile refuses what its kernels ignore") {
  LowLatencyCase input = plain_low_latency(40, {2, 2});
  const std::vector<std::uint8_t> mask = {1, 0};
  const std::vector<std::uint8_t> all = {1, 1};
  const std::vector<float> scales(6 * 9, 1.0F);
  const auto refused = [&](auto spoil, std::string_view text) {
    check_told(published_refusal(input, [&](Rank, auto& args) { spoil(args); }), Errc::invalid_argument, text);
  };
  refused([&](auto& args) { args.active_mask = mask; }, "an active mask with an inactive token");
  refused(
      [&](auto& args) {
        args.quant = ops::Quant::int8;
        args.scales = scales;
      },
      "smooth scales");
  refused(
      [&](auto& args) {
        args.quant = ops::Quant::int8;
        args.static_scale = 1.0F;
      },
      "infinite scale");
  refused([&](auto& args) { args.shared = {.experts = 1, .ranks = 1}; }, "shared experts");
  input.mask = {{1, 1}, {1, 1}};
  CHECK(test::run_low_latency(input, {.profile = kFaithful202607}) == "");
  input = plain_low_latency(41, std::vector<std::int64_t>(9, 1), 9);
  check_told(published_refusal(input, [](Rank, auto&) {}), Errc::invalid_argument, "has room for 8 x 1 cores");
}

TEST_CASE("S5: as published, strict mode refuses a combine whose flags lie over the rounds of barriers") {
  const LowLatencyCase input = plain_low_latency(42, {1, 1});
  const LowLatencyExpected expected = expect(input);
  for (const Profile& profile : {kFaithful202607, kFaithful202608}) {
    runtime::Config config = test::low_latency_config({.profile = profile}, {&input, 1});
    config.strict = true;
    const auto body = [&](runtime::World& world) -> Result<void> {
      const Result<test::LowLatencyRoom> room = test::allocate_low_latency_room(world.all(), {&input, 1});
      if (!room) return room.error();
      if (Result<void> met = world.all().barrier(); !met) return met;
      ops::LowLatencyTables tables;
      LowLatencyStep step(world.all(), input, expected, *room, tables);
      if (Result<void> sent = ops::dispatch_low_latency(world.all(), step.dispatch_args(), tables); !sent) return sent;
      step.clear_sums();
      const Result<void> told = ops::combine_low_latency(world.all(), step.combine_args());
      check_told(told, Errc::invalid_argument, "is the word in which core 0 counts rounds, and it has counted");
      check_told(told, Errc::invalid_argument, "(S5): take a communicator on which no barrier");
      return {};
    };
    const Result<void> done = runtime::World::run_as_threads(2, config, body);
    CHECK_MESSAGE(done, to_string(done.error()));
  }
}

TEST_CASE("slots that nobody declared") {
  const LowLatencyCase input = plain_low_latency(50, {1, 1});
  const LowLatencyExpected expected = expect(input);
  runtime::Config config = test::low_latency_config({}, {&input, 1});
  config.declare_slots = {};
  const Result<void> done = runtime::World::run_as_threads(2, config, [&](runtime::World& world) -> Result<void> {
    ops::LowLatencyTables tables;
    const LowLatencyStep step(world.all(), input, expected, {}, tables);
    return ops::dispatch_low_latency(world.all(), step.dispatch_args(), tables);
  });
  check_told(done, Errc::invalid_argument, "call ops::declare_low_latency");
}
