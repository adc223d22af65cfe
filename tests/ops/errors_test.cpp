// Bad input: one error, the same on every rank, before any row is written; and the world works on afterwards.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/ep/pipeline.hpp"
#include "tests/ops/ep_fixture.hpp"
#include "tests/ops/refusal.hpp"

using namespace shmoe;
using test::EpCase;
using test::make_case;
using test::Room;
using test::run_tables;
using test::Tables;

namespace {

using Call = std::function<Result<void>(runtime::Communicator&, const Room&)>;

struct Refusal {
  std::vector<Error> errors;  // of each rank
  std::vector<int> stray;     // bytes of the row buffers that changed
  std::string after;          // what a good step differs in afterwards
};

int changed(std::span<const std::byte> bytes) {
  return static_cast<int>(std::count_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != test::kCanary; }));
}

/// Runs `bad`, which must fail on every rank, then a good step.
Refusal refusal_of(const EpCase& good, const Call& bad, std::int32_t cores = 2) {
  const auto ranks = static_cast<std::size_t>(good.ranks());
  Refusal refusal{.errors = std::vector<Error>(ranks), .stray = std::vector<int>(ranks), .after = {}};
  std::vector<std::string> found(ranks, "not run");
  const test::Expected expected = test::expect(good);
  const std::span<const EpCase> cases{&good, 1};
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const std::size_t me = comm.rank().index();
    const Result<Room> room = test::allocate_room(comm, cases);
    if (!room) return room.error();
    const std::size_t rows = static_cast<std::size_t>(expected.answer.total_recv_tokens) * good.row_bytes();
    const auto recv_x = comm.local<std::byte>(room->recv_x, rows);
    const auto other_counts =
        comm.local<std::byte>(room->counts[1], static_cast<std::size_t>(good.problem.experts) * 4);
    std::fill(recv_x.begin(), recv_x.end(), test::kCanary);
    std::fill(other_counts.begin(), other_counts.end(), test::kCanary);
    if (Result<void> met = comm.barrier(); !met) return met;
    const Result<void> refused = bad(comm, *room);
    if (!refused) refusal.errors[me] = refused.error();
    if (Result<void> met = comm.barrier(); !met) return met;
    refusal.stray[me] = changed(recv_x) + changed(other_counts);
    const Result<test::Outcome> outcome = test::run_step(comm, good, *room, 1);
    if (!outcome) return outcome.error();
    found[me] = test::difference(good, expected, comm.rank().value(), *outcome);
    return comm.barrier();
  };
  const Result<void> done =
      runtime::World::run_as_threads(good.ranks(), test::config_for({.cores = cores}, test::heap_for(cases)), body);
  for (const std::string& text : found) refusal.after += text;
  if (!done) refusal.after = to_string(done.error());
  return refusal;
}

void check_refused(const Refusal& refusal, Errc code, std::string_view text) {
  for (const Error& error : refusal.errors) {
    test::check_told(error, code, text);
    CHECK(error.context == refusal.errors.front().context);
    CHECK(error.where == refusal.errors.front().where);
  }
  for (const int bytes : refusal.stray) CHECK(bytes == 0);
  CHECK(refusal.after == "");
}

/// A step in which rank 1 has its own idea of the case.
Call step_with(const EpCase& good, const EpCase& other) {
  return [&good, &other](runtime::Communicator& comm, const Room& room) -> Result<void> {
    const Result<test::Outcome> outcome = test::run_step(comm, comm.rank() == Rank{1} ? other : good, room, 0);
    if (!outcome) return outcome.error();
    return {};
  };
}

using Spoil = std::function<void(Rank, ops::DispatchArgs&)>;

Call dispatch_with(const EpCase& good, const Spoil& spoil) {
  return [&good, spoil](runtime::Communicator& comm, const Room& room) -> Result<void> {
    const Result<Tables> tables = run_tables(comm, good, room.counts[0]);
    if (!tables) return tables.error();
    const std::vector<std::byte> x = good.tokens_of(comm.rank().value());
    ops::DispatchArgs args = dispatch_args(good, room, *tables, x);
    spoil(comm.rank(), args);
    return ops::dispatch_normal(comm, args);
  };
}

}  // namespace

TEST_CASE("T16: an id that is no expert is refused everywhere, naming rank, token, k and value") {
  const EpCase good = make_case(16, {});
  for (const std::int64_t id : {std::int64_t{16}, std::int64_t{23}, std::int64_t{-2},
                                std::int64_t{std::numeric_limits<std::int32_t>::max()}, std::int64_t{1} << 40}) {
    EpCase bad = good;
    bad.problem.ranks[1].topk_idx[2 * 3 + 1] = id;
    for (const std::int32_t cores : {1, 4}) {
      check_refused(refusal_of(good, step_with(good, bad), cores), Errc::invalid_argument,
                    fmt::format("rank 1: token 3, k 1: expert id {} is not in [-1, 16)", id));
    }
  }
}

TEST_CASE("ranks that disagree about a shape all hear of it") {
  const EpCase good = make_case(1, {});
  EpCase hidden = good;
  hidden.hidden = 32;
  check_refused(refusal_of(good, step_with(good, hidden)), Errc::mismatch,
                "dispatch_normal: hidden is 32 on rank 1 and 64 on rank 0: every rank must pass the same");
  EpCase dtype = good;
  dtype.dtype = DType::fp16;
  check_refused(refusal_of(good, step_with(good, dtype)), Errc::mismatch, "dtype is");
  const EpCase topk = make_case(1, {.topk = 1});
  check_refused(refusal_of(good, step_with(good, topk)), Errc::mismatch, "topk is");
  const EpCase experts = make_case(1, {.experts = 12});
  check_refused(refusal_of(good, step_with(good, experts)), Errc::mismatch, "experts is");
  EpCase owners = good;
  std::swap(owners.problem.owner[0], owners.problem.owner[15]);
  check_refused(refusal_of(good, step_with(good, owners)), Errc::mismatch, "owner map is");
}

TEST_CASE("a capacity that is too small is refused with both figures") {
  const EpCase good = make_case(2, {.tokens = {9, 2, 0, 5}});
  const std::int64_t needed = test::expect(good).answer.total_recv_tokens;
  const auto less = [&](Rank, ops::DispatchArgs& args) { args.capacity = needed - 1; };
  check_refused(refusal_of(good, dispatch_with(good, less)), Errc::capacity_exceeded,
                fmt::format("recv_x holds {} rows, {} are needed", needed - 1, needed));
  const auto less_on_one = [&](Rank rank, ops::DispatchArgs& args) { args.capacity = rank == Rank{2} ? 0 : needed; };
  check_refused(refusal_of(good, dispatch_with(good, less_on_one)), Errc::capacity_exceeded, "recv_x holds 0 rows");
  const auto more_on_one = [&](Rank rank, ops::DispatchArgs& args) { args.capacity += rank == Rank{2} ? 1 : 0; };
  check_refused(refusal_of(good, dispatch_with(good, more_on_one)), Errc::mismatch, "capacity is");
}

TEST_CASE("T34: ranks that were built for different numbers of tokens hear of both figures") {
  const EpCase good = make_case(34, {.tokens = {8, 8, 8, 8}});
  const std::int64_t eight_tokens = 4 * 8 * 2;  // of every rank
  const auto sixteen = [&](Rank rank, ops::DispatchArgs& args) {
    args.capacity = rank == Rank{0} ? eight_tokens : 2 * eight_tokens;
  };
  for (const std::int32_t cores : {1, 4}) {
    check_refused(refusal_of(good, dispatch_with(good, sixteen), cores), Errc::mismatch,
                  "dispatch_normal: capacity is 128 on rank 1 and 64 on rank 0: every rank must pass the same");
  }
}

TEST_CASE("T41: a buffer of one row less than needed, or one byte too near to the end, is refused with the figures") {
  for (const ops::Quant quant : {ops::Quant::none, ops::Quant::int8}) {
    const EpCase good = make_case(41, {.quant = quant, .alignment = 4});
    const std::int64_t needed = test::expect(good).answer.total_recv_tokens;
    REQUIRE(needed % 4 == 0);
    check_refused(
        refusal_of(good, dispatch_with(good, [&](Rank, ops::DispatchArgs& args) { args.capacity = needed - 1; })),
        Errc::capacity_exceeded, fmt::format("recv_x holds {} rows, {} are needed", needed - 1, needed));
    const auto near_end = [&](std::uint64_t row_bytes, std::uint64_t shift, Offset ops::DispatchArgs::*place) -> Call {
      return [&good, row_bytes, shift, place, needed](runtime::Communicator& comm, const Room& room) -> Result<void> {
        const Result<Tables> tables = run_tables(comm, good, room.counts[0]);
        if (!tables) return tables.error();
        const std::vector<std::byte> x = good.tokens_of(comm.rank().value());
        ops::DispatchArgs args = dispatch_args(good, room, *tables, x);
        const std::uint64_t end = comm.map().heap.end().value();
        args.*place = Offset{end - static_cast<std::uint64_t>(needed) * row_bytes + shift};
        return ops::dispatch_normal(comm, args);
      };
    };
    const std::string text = fmt::format("{} rows of {} bytes at offset", needed, good.sent_row_bytes());
    check_refused(refusal_of(good, near_end(good.sent_row_bytes(), 1, &ops::DispatchArgs::recv_x)),
                  Errc::invalid_argument, "recv_x: " + text);
    if (quant == ops::Quant::none) continue;
    check_refused(refusal_of(good, near_end(4, 4, &ops::DispatchArgs::recv_scales)), Errc::invalid_argument,
                  fmt::format("recv_scales: {} rows of 4 bytes at offset", needed));
  }
}

TEST_CASE("T77: ranks that enter two operators in different order hear of both") {
  const EpCase good = make_case(77, {});
  const Call crossed = [&good](runtime::Communicator& comm, const Room& room) -> Result<void> {
    const Result<Tables> tables = run_tables(comm, good, room.counts[0]);
    if (!tables) return tables.error();
    std::vector<std::byte> x = good.tokens_of(comm.rank().value());
    if (comm.rank() != Rank{1}) return ops::dispatch_normal(comm, dispatch_args(good, room, *tables, x));
    return ops::combine_normal(comm, combine_args(good, room, *tables, x));
  };
  Refusal refusal = refusal_of(good, crossed);
  for (Error& error : refusal.errors) error.context.erase(0, error.context.find("rank "));  // begins with its own
  check_refused(
      refusal, Errc::mismatch,
      "rank 1 calls combine_normal while rank 0 calls dispatch_normal: every rank must call the same operators "
      "in the same order");
}

TEST_CASE("options that ranks do not share, or that do not fit, are refused everywhere") {
  const EpCase good = make_case(9, {.quant = ops::Quant::int8});
  const auto refused = [&](const std::function<void(ops::DispatchArgs&)>& change) {
    return refusal_of(good, dispatch_with(good, [change](Rank rank, ops::DispatchArgs& args) {
                        if (rank == Rank{2}) change(args);
                      }));
  };
  check_refused(refused([](ops::DispatchArgs& args) { args.quant = ops::Quant::none; }), Errc::mismatch,
                "quantisation is 0 on rank 2 and 1 on rank 0");
  check_refused(refused([](ops::DispatchArgs& args) { args.recv_scales = args.recv_scales + Bytes{4}; }),
                Errc::mismatch, "scales offset is");
  check_refused(refused([](ops::DispatchArgs& args) { args.recv_scales = args.recv_scales + Bytes{2}; }),
                Errc::invalid_argument, "is no multiple of 4");
  check_refused(refused([](ops::DispatchArgs& args) { args.recv_scales = Offset{110 * 1024}; }), Errc::invalid_argument,
                "rank 2: recv_scales: ");
  static std::vector<std::int64_t> short_list(3);
  check_refused(refused([](ops::DispatchArgs& args) { args.wait_cost = short_list; }), Errc::invalid_argument,
                "rank 2: wait_cost has 3 entries, one for each of 4 ranks");
  EpCase aligned = good;
  aligned.problem.alignment = 8;
  check_refused(refusal_of(good, step_with(good, aligned)), Errc::mismatch, "alignment is 8 on rank 1 and 1 on rank 0");
  for (const std::int64_t alignment : {std::int64_t{0}, std::int64_t{-4}, ops::kMostAlignment + 1}) {
    aligned.problem.alignment = alignment;
    check_refused(refusal_of(good, step_with(good, aligned)), Errc::invalid_argument,
                  fmt::format("rank 1: notify: expert_alignment is {}, not in [1, 1073741824]", alignment));
  }
  EpCase cumulative = good;
  cumulative.group_list = ops::GroupList::cumulative;
  check_refused(refusal_of(good, step_with(good, cumulative)), Errc::mismatch, "group list is 1 on rank 1");
}

TEST_CASE("more choices of a token than experts are refused") {
  const EpCase good = make_case(10, {.experts = 4, .topk = 4});
  const EpCase many = make_case(10, {.experts = 4, .topk = 5});
  check_refused(refusal_of(good, step_with(good, many)), Errc::invalid_argument,
                "rank 1: layout: top-k is 5 of 4 experts: pass 1 to 4");
}

TEST_CASE("tables of a notify that failed are refused") {
  const EpCase good = make_case(20, {});
  check_refused(refusal_of(good,
                           [&good](runtime::Communicator& comm, const Room& room) -> Result<void> {
                             Result<Tables> tables = run_tables(comm, good, room.counts[0]);
                             if (!tables) return tables.error();
                             EpCase bad = good;
                             bad.problem.alignment = 0;
                             if (test::run_notify(comm, bad, *tables)) return {};
                             const std::vector<std::byte> x = good.tokens_of(comm.rank().value());
                             return ops::dispatch_normal(comm, dispatch_args(good, room, *tables, x));
                           }),
                Errc::invalid_argument, "rank 0: the owner map of these 16 experts is not the one notify");
}

TEST_CASE("arguments of dispatch that do not fit each other") {
  const EpCase good = make_case(3, {});
  const auto on_rank_3 = [](const std::function<void(ops::DispatchArgs&)>& change) -> Spoil {
    return [change](Rank rank, ops::DispatchArgs& args) {
      if (rank == Rank{3}) change(args);
    };
  };
  const auto refused = [&](const std::function<void(ops::DispatchArgs&)>& change) {
    return refusal_of(good, dispatch_with(good, on_rank_3(change)));
  };
  check_refused(refused([](ops::DispatchArgs& args) { args.x = args.x.first(args.x.size() - 2); }),
                Errc::invalid_argument, "rank 3: x has 638 bytes");
  check_refused(refused([](ops::DispatchArgs& args) { args.topk_idx = args.topk_idx.first(4); }),
                Errc::invalid_argument, "rank 3: topk_idx has 4 ids, layout counted 10");
  static const std::vector<std::int32_t> kForeign(10, 99);
  check_refused(refused([](ops::DispatchArgs& args) { args.topk_idx = kForeign; }), Errc::invalid_argument,
                "rank 3: token 0, k 0: expert id 99 is not the one layout and notify counted");
  check_refused(refused([](ops::DispatchArgs& args) { args.recv_x = Offset{std::uint64_t{1} << 40}; }),
                Errc::invalid_argument, "lie neither in the heap");
  check_refused(refused([](ops::DispatchArgs& args) { args.hidden = 0; }), Errc::invalid_argument,
                "rank 3: dispatch_normal: hidden is 0");
}

TEST_CASE("dispatch and combine refuse another owner map than notify's") {
  const EpCase good = make_case(8, {});
  EpCase other = good;
  std::swap(other.problem.owner[0], other.problem.owner[15]);
  const std::string text = "the owner map of these 16 experts is not the one notify laid the rows out by";
  for (const std::int32_t odd : {0, 2, -1}) {  // -1: all ranks
    CAPTURE(odd);
    const auto call = [&](bool dispatch) -> Call {
      return [&, dispatch](runtime::Communicator& comm, const Room& room) -> Result<void> {
        Result<Tables> tables = run_tables(comm, good, room.counts[0]);
        if (!tables) return tables.error();
        if (odd == -1 || comm.rank() == Rank{odd}) tables->experts = other.experts();
        std::vector<std::byte> x = good.tokens_of(comm.rank().value());
        if (dispatch) return ops::dispatch_normal(comm, dispatch_args(good, room, *tables, x));
        return ops::combine_normal(comm, combine_args(good, room, *tables, x));
      };
    };
    const std::string place = fmt::format("rank {}: ", odd == -1 ? 0 : odd);
    check_refused(refusal_of(good, call(true)), Errc::invalid_argument, place + text);
    check_refused(refusal_of(good, call(false)), Errc::invalid_argument, place + text);
  }
}

TEST_CASE("arguments of combine that do not fit each other") {
  const EpCase good = make_case(4, {});
  const auto refused = [&](const std::function<void(ops::CombineArgs&)>& change) {
    return refusal_of(good, [&good, change](runtime::Communicator& comm, const Room& room) -> Result<void> {
      const Result<Tables> tables = run_tables(comm, good, room.counts[0]);
      if (!tables) return tables.error();
      std::vector<std::byte> x = good.tokens_of(comm.rank().value());
      ops::CombineArgs args = combine_args(good, room, *tables, x);
      if (comm.rank() == Rank{0}) change(args);
      return ops::combine_normal(comm, args);
    });
  };
  check_refused(refused([](ops::CombineArgs& args) { args.weights = args.weights.first(3); }), Errc::invalid_argument,
                "rank 0: 3 weights for 10 expert ids");
  check_refused(refused([](ops::CombineArgs& args) { args.x = args.x.first(0); }), Errc::invalid_argument,
                "rank 0: x has 0 bytes");
  check_refused(refused([](ops::CombineArgs& args) { args.capacity = 1; }), Errc::capacity_exceeded,
                "expert_out holds 1 rows");
  check_refused(refused([](ops::CombineArgs& args) { args.dtype = DType::fp16; }), Errc::mismatch, "dtype is");
  static std::vector<std::byte> gradients(20);
  check_refused(refused([](ops::CombineArgs& args) { args.grad_out = gradients; }), Errc::invalid_argument,
                "rank 0: grad_out has 20 bytes, 10 expert ids without prob_grad have 0");
  check_refused(refused([](ops::CombineArgs& args) { args.prob_grad = args.expert_out; }), Errc::invalid_argument,
                "rank 0: grad_out has 0 bytes, 10 expert ids with prob_grad have 20");
  check_refused(refused([](ops::CombineArgs& args) {
                  args.prob_grad = args.expert_out;
                  args.grad_out = gradients;
                }),
                Errc::mismatch, "prob_grad is -1 on rank 1");
  check_refused(refused([](ops::CombineArgs& args) {
                  args.prob_grad = Offset{101 * 1024};
                  args.grad_out = gradients;
                }),
                Errc::invalid_argument, "rank 0: prob_grad: ");
  static std::vector<std::int64_t> long_list(5);
  check_refused(refused([](ops::CombineArgs& args) { args.wait_cost = long_list; }), Errc::invalid_argument,
                "rank 0: wait_cost has 5 entries, one for each of 4 ranks");
}

TEST_CASE("T43: counts that would cover flags, or lie across two numbers, are refused everywhere") {
  const EpCase good = make_case(5, {});
  const auto counted_at = [&good](const std::function<Offset(runtime::Communicator&, const Room&)>& place) -> Call {
    return [&good, place](runtime::Communicator& comm, const Room& room) -> Result<void> {
      const Offset at = comm.rank() == Rank{1} ? place(comm, room) : room.counts[0];
      Tables tables(good, comm.rank());
      Result<void> counted = ops::layout(
          comm, {.routing = tables.routing, .experts = tables.experts, .num_tokens_per_expert = at}, tables.layout);
      return counted ? test::run_notify(comm, good, tables) : counted;
    };
  };
  const auto flags = [](runtime::Communicator& comm, const Room&) { return comm.map().barrier.at; };
  const auto across = [](runtime::Communicator&, const Room& room) { return room.counts[0] + Bytes{2}; };
  const std::string text = "rank 1: layout: num_tokens_per_expert";
  check_refused(refusal_of(good, counted_at(flags)), Errc::invalid_argument, text + ": 16 rows of 4 bytes at offset");
  check_refused(refusal_of(good, counted_at(across)), Errc::invalid_argument, text + " at offset");
}

TEST_CASE("tables of different calls of notify are refused") {
  const EpCase good = make_case(6, {});
  check_refused(refusal_of(good,
                           [&good](runtime::Communicator& comm, const Room& room) -> Result<void> {
                             const Result<Tables> first = run_tables(comm, good, room.counts[0]);
                             if (!first) return first.error();
                             if (Result<void> read = comm.barrier(); !read) return read;
                             const Result<Tables> second = run_tables(comm, good, room.counts[0]);
                             if (!second) return second.error();
                             const std::vector<std::byte> x = good.tokens_of(comm.rank().value());
                             const Tables& tables = comm.rank() == Rank{1} ? *first : *second;
                             return ops::dispatch_normal(comm, dispatch_args(good, room, tables, x));
                           }),
                Errc::mismatch, "notify round");
}

TEST_CASE("ids that are no whole number of tokens, and a map for another number of ranks, are raised by notify") {
  const EpCase good = make_case(5, {});
  EpCase ragged = good;
  ragged.problem.ranks[1].topk_idx.pop_back();
  check_refused(refusal_of(good, step_with(good, ragged)), Errc::invalid_argument,
                "rank 1: layout: 9 expert ids are no whole number of tokens of top-k 2");
  check_refused(
      refusal_of(good,
                 [](runtime::Communicator& comm, const Room& room) -> Result<void> {
                   const ops::Routing routing(1, {});
                   const ops::ExpertMap experts = ops::ExpertMap::even(16, 3);
                   ops::LayoutTables layout;
                   Result<void> counted = ops::layout(
                       comm, {.routing = routing, .experts = experts, .num_tokens_per_expert = room.counts[0]}, layout);
                   if (!counted) return counted;
                   ops::NotifyTables notify;
                   return ops::notify(comm, {.layout = layout, .experts = experts}, notify);
                 }),
      Errc::invalid_argument, "the expert map is for 3 ranks, the communicator has 4");
}

TEST_CASE("ranks whose heaps differ hear of it in the next handshake") {
  const EpCase good = make_case(6, {});
  std::vector<Errc> codes(4, Errc::ok);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<Room> room = test::allocate_room(comm, {&good, 1});
    if (!room) return room.error();
    if (comm.rank() == Rank{2}) {
      if (const Result<Offset> extra = comm.allocate(Bytes{64}); !extra) return extra.error();
    }
    const Result<Tables> tables = run_tables(comm, good, room->counts[0]);
    if (!tables) codes[comm.rank().index()] = tables.error().code;
    return {};
  };
  const Result<void> done =
      runtime::World::run_as_threads(4, test::config_for({}, Bytes{test::heap_for({&good, 1}).value() + 4096}), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  for (const Errc code : codes) CHECK(code == Errc::mismatch);
}

TEST_CASE("an owner map of another communicator is refused before a row is sent") {
  const EpCase good = make_case(7, {});
  const ops::ExpertMap wide = ops::ExpertMap::even(good.problem.experts, 5);
  check_refused(refusal_of(good,
                           [&](runtime::Communicator& comm, const Room& room) -> Result<void> {
                             Result<Tables> tables = run_tables(comm, good, room.counts[0]);
                             if (!tables) return tables.error();
                             tables->notify.put_offset.resize(static_cast<std::size_t>(wide.experts()) * 5);
                             tables->notify.recv_data.resize(static_cast<std::size_t>(wide.experts()) * 5);
                             tables->notify.owner_map = wide.hash();
                             const std::vector<std::byte> x = good.tokens_of(comm.rank().value());
                             ops::DispatchArgs args = dispatch_args(good, room, *tables, x);
                             return ops::dispatch_normal(comm, {.x = args.x,
                                                                .dtype = args.dtype,
                                                                .hidden = args.hidden,
                                                                .topk_idx = args.topk_idx,
                                                                .experts = wide,
                                                                .layout = args.layout,
                                                                .notify = args.notify,
                                                                .recv_x = args.recv_x,
                                                                .capacity = args.capacity});
                           }),
                Errc::invalid_argument, "the expert map is for 5 ranks, the communicator has 4");
}

TEST_CASE("buffers grow with the steps and give everything back") {
  std::vector<std::string> found(3, "not run");
  std::vector<EpCase> cases;
  for (std::uint64_t step = 0; step < 6; ++step) {
    const auto tokens = static_cast<std::int64_t>(1 + 7 * step);
    cases.push_back(make_case(step, {.experts = 9, .hidden = 16, .tokens = {tokens, 2, 0}}));
  }
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    auto buffers = ops::EpBuffers::allocate(comm, 9, DType::bf16, 16);
    if (!buffers) return buffers.error();
    std::string& own = found[comm.rank().index()];
    own.clear();
    for (const EpCase& input : cases) {
      const Result<Tables> tables = run_tables(comm, input, buffers->next_counts());
      if (!tables) return tables.error();
      if (Result<void> grown = buffers->reserve(tables->notify); !grown) return grown;
      Room room;
      room.recv_x = buffers->recv_x();
      room.expert_out = buffers->expert_out();
      const std::vector<std::byte> x = input.tokens_of(comm.rank().value());
      ops::DispatchArgs args = dispatch_args(input, room, *tables, x);
      args.capacity = buffers->capacity();
      if (Result<void> sent = ops::dispatch_normal(comm, args); !sent) return sent;
      const auto received = buffers->received(tables->notify.recv_rows);
      const auto expected = test::expect(input).received[comm.rank().index()];
      if (!std::equal(received.begin(), received.end(), expected.begin(), expected.end())) own = input.describe();
    }
    if (Result<void> met = comm.barrier(); !met) return met;
    if (Result<void> freed = buffers->release(); !freed) return freed;
    if (comm.heap().live_blocks() != 0) own = "blocks are left";
    return comm.barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(3, test::config_for({.cores = 2}, Bytes{1U << 20}), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  CHECK(found == std::vector<std::string>(3));
}
