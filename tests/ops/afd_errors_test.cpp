// Bad input of a2e and e2a: one error, the same on every rank, and the world works on afterwards.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "tests/ops/afd_case.hpp"
#include "tests/ops/ep_case.hpp"
#include "tests/ops/refusal.hpp"

using namespace shmoe;
using test::AfdCase;
using test::make_afd_case;

namespace {

/// What a rank does otherwise than the others.
struct Spoiled {
  std::function<void(Rank, ops::AfdShape&)> shape = {};
  std::function<void(Rank, ops::A2eArgs&)> a2e = {};
  std::function<void(Rank, ops::E2aArgs&)> e2a = {};
  std::function<void(Rank, ops::A2eTables&)> tables = {};
};

/// The error of each rank where a call is spoiled; a good call must work afterwards.
std::vector<Error> refused(const AfdCase& input, const Spoiled& spoiled, const test::AfdSetup& setup = {}) {
  std::vector<Error> errors(static_cast<std::size_t>(input.ranks()));
  const auto answers = test::afd_answers(input);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Rank me = comm.rank();
    const Result<Offset> window = comm.allocate(ops::afd_window_bytes(input.shape(), setup.profile));
    if (!window) return window.error();
    const ops::AfdSignals signals = ops::afd_signals(comm.slots());
    const auto calls = [&](const Spoiled& spoil) -> Result<void> {
      ops::AfdShape shape = input.shape();
      if (spoil.shape) spoil.shape(me, shape);
      const ops::AfdPlace place{.shape = shape, .window = *window, .signals = signals};
      const bool expert = me < Rank{input.sizes.experts};
      std::vector<std::byte> expand_x(expert ? 1U << 16 : 0U, test::kCanary);
      ops::A2eTables tables;
      ops::A2eArgs args = test::a2e_args(input, place, me, expand_x);
      if (spoil.a2e) spoil.a2e(me, args);
      if (auto done = ops::a2e(comm, args, tables); !done) {
        CHECK(std::ranges::count(expand_x, test::kCanary) == std::ssize(expand_x));
        return done;
      }
      if (spoil.tables) spoil.tables(me, tables);
      std::vector<std::byte> x(expert ? 0 : args.x.size());
      ops::E2aArgs back = test::e2a_args(input, place, tables, me, expert ? answers[me.index()] : answers[0], x);
      if (spoil.e2a) spoil.e2a(me, back);
      return ops::e2a(comm, back);
    };
    if (const Result<void> bad = calls(spoiled); !bad) errors[me.index()] = bad.error();
    if (!setup.profile.handshake) return comm.barrier();
    if (Result<void> met = comm.barrier(); !met) return met;
    return calls({});
  };
  const Result<void> done = runtime::World::run_as_threads(input.ranks(), test::afd_config(input, setup), body);
  CHECK_MESSAGE(done, to_string(done.error()));
  return errors;
}

void check_refused(const AfdCase& input, const Spoiled& spoiled, Errc code, std::string_view text,
                   const test::AfdSetup& setup = {}) {
  const std::vector<Error> errors = refused(input, spoiled, setup);
  for (const Error& error : errors) {
    test::check_told(error, code, text);
    CHECK(error.context == errors.front().context);
  }
}

const std::vector<std::byte> kBytes(1U << 16);

}  // namespace

TEST_CASE("ranks that disagree about the shape all hear of it, before anything is sent") {
  const AfdCase good = make_afd_case(1, {.experts = 2, .batches = {3, 4, 2}});
  const auto on_rank_3 = [](const std::function<void(ops::AfdShape&)>& change) {
    return Spoiled{.shape = [change](Rank rank, ops::AfdShape& shape) {
      if (rank == Rank{3}) change(shape);
    }};
  };
  // H12: the gate on at one end only.
  check_refused(good, Spoiled{.shape = [](Rank rank, ops::AfdShape& shape) { shape.compute_gate = rank != Rank{1}; }},
                Errc::mismatch, "compute gate is 0 on rank 1 and 1 on rank 0: every rank must pass the same");
  check_refused(good, on_rank_3([](ops::AfdShape& shape) { shape.max_batch = 9; }), Errc::mismatch,
                "a2e: max batch is 9 on rank 3 and 4 on rank 0");
  check_refused(good, on_rank_3([](ops::AfdShape& shape) { shape.dtype = DType::fp16; }), Errc::mismatch, "dtype is");
  check_refused(good,
                Spoiled{.shape =
                            [](Rank rank, ops::AfdShape& shape) {
                              if (rank == Rank{1}) shape.quant = ops::Quant::int8;
                            }},
                Errc::mismatch, "quantisation is 1 on rank 1 and 0 on rank 0");
  check_refused(good,
                Spoiled{.shape =
                            [](Rank rank, ops::AfdShape& shape) {
                              if (rank == Rank{1}) shape.hidden = 16;
                            }},
                Errc::mismatch, "hidden is 16 on rank 1");
  check_refused(good, on_rank_3([](ops::AfdShape& shape) { shape.ranks = ops::Assignment::of(1, 3).value(); }),
                Errc::invalid_argument,
                "rank 3: 1 expert ranks and 3 attention ranks, but the communicator has 5 ranks");
  check_refused(good, on_rank_3([](ops::AfdShape& shape) { shape.hidden = 0; }), Errc::invalid_argument,
                "rank 3: hidden is 0");
  check_refused(good, on_rank_3([](ops::AfdShape& shape) { shape.topk = 0; }), Errc::invalid_argument,
                "rank 3: topk is 0");
  check_refused(good, on_rank_3([](ops::AfdShape& shape) { shape.max_batch = 0; }), Errc::invalid_argument,
                "rank 3: max_batch is 0");
}

TEST_CASE("a batch that does not fit its tables is refused everywhere, naming the rank") {
  const AfdCase good = make_afd_case(2, {.experts = 2, .batches = {3, 4, 2}, .hidden = 8});
  const auto on = [](std::int32_t which, const std::function<void(ops::A2eArgs&)>& change) {
    return Spoiled{.a2e = [which, change](Rank rank, ops::A2eArgs& args) {
      if (rank == Rank{which}) change(args);
    }};
  };
  const auto bytes = [](std::size_t n) { return std::span{kBytes}.first(n); };
  check_refused(good, on(2, [&](ops::A2eArgs& args) { args.x = bytes(15); }), Errc::invalid_argument,
                "rank 2: x has 15 bytes, which are no rows of 8 bf16");
  check_refused(good, on(2, [](ops::A2eArgs& args) { args.scales = args.scales.first(5); }), Errc::invalid_argument,
                "rank 2: 6 expert ids and 5 scales for 3 rows with a gate: 6 of each are needed");
  const std::vector<std::uint8_t> mask(2, 1);
  check_refused(good, on(2, [&](ops::A2eArgs& args) { args.active_mask = mask; }), Errc::invalid_argument,
                "rank 2: active_mask has 2 entries for 3 rows");
  check_refused(good, on(1, [&](ops::A2eArgs& args) { args.x = bytes(16); }), Errc::invalid_argument,
                "rank 1: an expert rank sends nothing");
  check_refused(good, on(0, [](ops::A2eArgs& args) { args.expand_x = args.expand_x.first(2 * 4 * 16 - 1); }),
                Errc::invalid_argument, "rank 0: expand_x has 127 bytes; 2 attention ranks of up to 4 rows need 128");
  const std::vector<std::int32_t> ids(10);
  const std::vector<float> scales(10);
  check_refused(good,
                on(4,
                   [&](ops::A2eArgs& args) {
                     args.x = bytes(5 * 16);
                     args.expert_ids = ids;
                     args.scales = scales;
                   }),
                Errc::capacity_exceeded, "rank 4: a batch of 5 rows, max_batch is 4");
}

TEST_CASE("answers that are not those of the rows that came are refused everywhere") {
  const AfdCase good = make_afd_case(3, {.experts = 2, .batches = {3, 4, 2}, .hidden = 8});
  check_refused(good,
                Spoiled{.e2a =
                            [](Rank rank, ops::E2aArgs& args) {
                              if (rank == Rank{0}) args.answers = args.answers.first(16);
                            }},
                Errc::invalid_argument, "rank 0: answers has 16 bytes; 10 rows of 8 bf16 have 160");
  check_refused(good,
                Spoiled{.e2a =
                            [](Rank rank, ops::E2aArgs& args) {
                              if (rank == Rank{3}) args.x = args.x.first(48);
                            }},
                Errc::invalid_argument, "rank 3: x has 48 bytes; 4 rows of 8 bf16 have 64");
  check_refused(good,
                Spoiled{.tables =
                            [](Rank rank, ops::A2eTables& tables) {
                              if (rank == Rank{2}) tables.round = 0;
                            }},
                Errc::invalid_argument, "rank 2: these tables come from no a2e that succeeded: call a2e first");
  check_refused(good,
                Spoiled{.tables =
                            [](Rank rank, ops::A2eTables& tables) {
                              if (rank == Rank{1}) tables.round += 1;
                            }},
                Errc::mismatch, "a2e round is");
}

TEST_CASE("slots of a2e and e2a that nobody declared are refused on every rank") {
  const AfdCase input = test::make_afd_case(1, {.experts = 1, .batches = {1}});
  runtime::Config config = test::afd_config(input, {});
  config.declare_slots = {};
  const Result<void> done = runtime::World::run_as_threads(2, config, [&](runtime::World& world) -> Result<void> {
    const ops::AfdSignals signals = ops::afd_signals(world.all().slots());
    const ops::AfdShape shape = input.shape();
    ops::A2eTables tables;
    const Result<void> told =
        ops::a2e(world.all(), {.place = {.shape = shape, .window = Offset{0}, .signals = signals}}, tables);
    test::check_told(told, Errc::invalid_argument,
                     "a2e: rank 0: the slots of a2e and e2a are not declared: call "
                     "ops::declare_afd in Config::declare_slots");
    return {};
  });
  CHECK_MESSAGE(done, to_string(done.error()));
}

TEST_CASE("the published profiles refuse alone, with the reason, what their kernel would ignore") {
  const test::AfdSetup published{.cores = 4, .profile = kFaithful202607};
  const test::AfdSizes sizes{.experts = 1, .batches = {2}, .hidden = 1024, .summed = false};
  const auto check = [&](const test::AfdSizes& other, std::string_view text, const test::AfdSetup& setup) {
    for (const Error& error : refused(make_afd_case(4, other), {}, setup)) {
      CHECK_MESSAGE(error.code == Errc::invalid_argument, to_string(error));
      CHECK_MESSAGE(error.context.find(text) != std::string::npos, to_string(error));
    }
  };
  test::AfdSizes other = sizes;
  other.dtype = DType::fp16;  // H17
  check(other, "the published kernel is empty for fp16: nothing would be sent, and its peers would wait for ever",
        published);
  other = sizes;
  other.quant = ops::Quant::int8;
  check(other, "is empty for bf16 sent as int8", published);
  other = sizes;
  other.experts = 2;
  check(other, "2 expert ranks for 1 attention ranks", published);
  other = sizes;
  other.hidden = 512;  // as the published test has it
  check(other, "hidden is 512; the published host takes multiples of 256 from 1024 to 7168", published);
  other = sizes;
  other.topk = 9;
  check(other, "topk is 9", published);
  check(sizes, "3 cores: the published kernel needs 4 at least", {.cores = 3, .profile = kFaithful202607});
}
