// What dispatch, combine and notify do on request: int8 rows, gradients, costs of waiting, aligned groups; and tables that
// serve several calls.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "tests/ops/ep_fixture.hpp"
#include "tests/ops/gated_fabric.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using test::EpCase;
using test::make_case;

namespace {

/// Runs body on each rank of a case, with buffers; an empty text is success.
using RankBody = std::function<Result<std::string>(runtime::Communicator&, const test::Room&)>;

void on_each_rank(const EpCase& input, const test::Setup& setup, const RankBody& body) {
  std::vector<std::string> found(static_cast<std::size_t>(input.ranks()), "not run");
  const std::span<const EpCase> cases{&input, 1};
  const Result<void> done = runtime::World::run_as_threads(
      input.ranks(), test::config_for(setup, test::heap_for(cases)),
      [&](runtime::World& world) -> Result<void> {
        const Result<test::Room> room = test::allocate_room(world.all(), cases);
        if (!room) return room.error();
        Result<std::string> own = body(world.all(), *room);
        if (!own) return own.error();
        found[world.rank().index()] = *own;
        return world.all().barrier();
      },
      setup.decorate);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  CHECK(found == std::vector<std::string>(found.size()));
}

/// Its clock shows one microsecond more each time somebody looks.
class TickingFabric final : public shmem::PassingFabric {
 public:
  using PassingFabric::PassingFabric;
  shmem::Time now() override { return shmem::Time{1000 * ++looks_}; }

 private:
  std::int64_t looks_ = 0;
};

runtime::FabricDecorator ticking() {
  return [](std::unique_ptr<shmem::Fabric> next, Rank, Core) -> std::unique_ptr<shmem::Fabric> {
    return std::make_unique<TickingFabric>(std::move(next));
  };
}

}  // namespace

TEST_CASE("int8 rows and their scales arrive to the bit, for any type, shape and number of cores") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t hidden : {1, 9, 64, 130}) {
      const EpCase input = make_case(11, {.topk = 3,
                                          .hidden = hidden,
                                          .dtype = dtype,
                                          .tokens = {5, 0, 3, 8},
                                          .dropped_percent = 20,
                                          .quant = ops::Quant::int8});
      for (const std::int32_t cores : {1, 2, 5}) {
        CHECK(test::run_case(input, {.cores = cores, .views = cores != 2, .steps = 2}) == "");
      }
      CHECK(test::run_case(input, {.cores = 2, .views = false, .weak_seed = 7, .steps = 2}) == "");
    }
  }
}

TEST_CASE("K up to E with int8 rows: a token meets each expert") {
  CHECK(test::run_case(make_case(12, {.experts = 32, .topk = 32, .quant = ops::Quant::int8}), {.cores = 3}) == "");
}

TEST_CASE("an expert that occurs several times in a token has a row each time") {
  const EpCase input =
      make_case(13, {.experts = 4, .topk = 4, .gradients = true}, [](std::int64_t, std::int64_t token, std::int64_t k) {
        return token == 0 ? 2 : k / 2;  // all four the same, or twice two
      });
  for (const std::int32_t cores : {1, 3}) CHECK(test::run_case(input, {.cores = cores}) == "");
  const auto outcomes = test::outcomes_of(input, {});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  CHECK((*outcomes)[2].notify.recv_tokens_per_expert == std::vector<std::int64_t>{16});
  CHECK((*outcomes)[0].notify.recv_tokens_per_expert == std::vector<std::int64_t>{32});
}

TEST_CASE("rows of each expert start at multiples of the alignment, beside the true counts") {
  // Expert 0 gets 3 rows, 1 none, 2 and 3 (of rank 1) four each.
  const EpCase input = make_case(14, {.experts = 4, .topk = 1, .hidden = 4, .tokens = {6, 5}, .alignment = 4},
                                 [](std::int64_t, std::int64_t token, std::int64_t) {
                                   return std::vector<std::int64_t>{0, 2, 2, 3, 3, 0}[static_cast<std::size_t>(token)];
                                 });
  for (const ops::GroupList list : {ops::GroupList::counts, ops::GroupList::cumulative}) {
    EpCase other = input;
    other.group_list = list;
    CHECK(test::run_case(other, {.cores = 2}) == "");
    const auto outcomes = test::outcomes_of(other, {.cores = 3});
    REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
    const ops::NotifyTables& zero = (*outcomes)[0].notify;
    const ops::NotifyTables& one = (*outcomes)[1].notify;
    CHECK(zero.put_offset == std::vector<std::int64_t>{0, 2, 4, 4, 0, 2, 4, 6});
    CHECK(zero.recv_tokens_per_expert == std::vector<std::int64_t>{3, 0});
    CHECK(one.recv_tokens_per_expert == std::vector<std::int64_t>{4, 4});
    CHECK(zero.group_list ==
          (list == ops::GroupList::counts ? std::vector<std::int64_t>{4, 0} : std::vector<std::int64_t>{4, 4}));
    CHECK(one.group_list ==
          (list == ops::GroupList::counts ? std::vector<std::int64_t>{4, 4} : std::vector<std::int64_t>{4, 8}));
    CHECK(zero.recv_rows == 3);
    CHECK(zero.padded_rows == 4);
    CHECK(one.recv_rows == 8);
    CHECK(one.padded_rows == 8);
    CHECK(zero.total_recv_tokens == 8);
  }
}

TEST_CASE("combine again on the same tables gives the same tokens and gradients") {
  const EpCase input = make_case(15, {.topk = 3, .tokens = {4, 0, 7, 2}, .dropped_percent = 10, .gradients = true});
  const test::Expected expected = test::expect(input);
  for (const std::int32_t cores : {1, 3}) {
    on_each_rank(input, {.cores = cores, .decorate = test::pauses(test::seed_of_run())},
                 [&](runtime::Communicator& comm, const test::Room& room) -> Result<std::string> {
                   const Result<test::Tables> tables = test::run_tables(comm, input, room.counts[0]);
                   if (!tables) return tables.error();
                   Result<test::Outcome> outcome = test::run_rows(comm, input, room, *tables);
                   for (int again = 0; outcome && again < 3; ++again) {
                     const std::size_t size = outcome->combined.size();
                     outcome->combined.assign(size, test::kNoNumber);
                     std::fill(outcome->gradients.begin(), outcome->gradients.end(), test::kNoNumber);
                     const Result<void> summed = ops::combine_normal(
                         comm, test::combine_args(input, room, *tables, outcome->combined, outcome->gradients));
                     if (!summed) return summed.error();
                     const std::string found = test::difference(input, expected, comm.rank().value(), *outcome);
                     if (!found.empty()) return found;
                   }
                   return outcome ? Result<std::string>{""} : outcome.error();
                 });
  }
}

TEST_CASE("T70: dispatch on cached tables moves the new tokens, as a fresh dispatch does") {
  for (const ops::Quant quant : {ops::Quant::none, ops::Quant::int8}) {
    EpCase input = make_case(70, {.topk = 3, .tokens = {4, 0, 7, 2}, .quant = quant, .alignment = 4});
    std::vector<EpCase> payloads(4, input);
    std::vector<test::Expected> expected;
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      payloads[i].seed = 700 + i;
      expected.push_back(test::expect(payloads[i]));
      if (i > 0) REQUIRE(expected[i].received != expected[i - 1].received);
    }
    on_each_rank(input, {.cores = 2, .decorate = test::pauses(test::seed_of_run())},
                 [&](runtime::Communicator& comm, const test::Room& room) -> Result<std::string> {
                   const Result<test::Tables> tables = test::run_tables(comm, input, room.counts[0]);
                   if (!tables) return tables.error();
                   for (std::size_t i = 0; i < payloads.size(); ++i) {
                     const auto outcome = test::run_rows(comm, payloads[i], room, *tables);
                     if (!outcome) return outcome.error();
                     const std::string found =
                         test::difference(payloads[i], expected[i], comm.rank().value(), *outcome);
                     if (!found.empty()) return found;
                   }
                   return std::string{};
                 });
  }
}

TEST_CASE("the cost of waiting is added up for each rank, in the order in which the ranks arrive") {
  const EpCase input = make_case(16, {});
  on_each_rank(
      input, {.decorate = ticking()}, [&](runtime::Communicator& comm, const test::Room& room) -> Result<std::string> {
        const Result<test::Tables> tables = test::run_tables(comm, input, room.counts[0]);
        if (!tables) return tables.error();
        std::vector<std::byte> x = input.tokens_of(comm.rank().value());
        std::vector<std::int64_t> cost(4, 7);
        const std::vector<std::int64_t> once = {7, 1007, 2007, 3007};  // itself, then one look of the clock each
        for (const bool dispatch : {true, false}) {
          cost.assign(4, 7);
          ops::DispatchArgs send = test::dispatch_args(input, room, *tables, x);
          ops::CombineArgs fetch = test::combine_args(input, room, *tables, x);
          send.wait_cost = fetch.wait_cost = cost;
          const Result<void> done = dispatch ? ops::dispatch_normal(comm, send) : ops::combine_normal(comm, fetch);
          if (!done) return done.error();
          std::vector<std::int64_t> sorted = cost;
          std::sort(sorted.begin(), sorted.end());
          if (cost[comm.rank().index()] != 7 || sorted != once) {
            return fmt::format("costs {} {} {} {}", cost[0], cost[1], cost[2], cost[3]);
          }
        }
        return std::string{};
      });
}

TEST_CASE("several cores share the ranks whose waiting they measure, and results stay as they are") {
  const EpCase input = make_case(17, {.tokens = {5, 2, 0, 4, 1, 3}, .quant = ops::Quant::int8});
  const test::Expected expected = test::expect(input);
  for (const Profile& profile : kProfiles) {
    const bool safe = profile.handshake;
    for (const std::int32_t cores : {1, 2, 5}) {
      if (!safe && cores != 1) continue;  // the published barriers may overrun
      const EpCase own = safe ? input : make_case(17, {.tokens = {5}, .quant = ops::Quant::int8});
      const test::Expected right = safe ? expected : test::expect(own);
      on_each_rank(own, {.cores = cores, .profile = profile},
                   [&](runtime::Communicator& comm, const test::Room& room) -> Result<std::string> {
                     const Result<test::Tables> tables = test::run_tables(comm, own, room.counts[0]);
                     if (!tables) return tables.error();
                     std::vector<std::int64_t> cost(static_cast<std::size_t>(own.ranks()));
                     test::Outcome outcome;
                     Result<void> sent = test::run_dispatch(comm, own, room, *tables, outcome, cost);
                     if (!sent) return sent.error();
                     if (Result<void> summed = test::run_combine(comm, own, room, *tables, outcome, cost); !summed) {
                       return summed.error();
                     }
                     if (cost[comm.rank().index()] != 0) return std::string{"a rank waited for itself"};
                     if (std::ranges::any_of(cost, [](std::int64_t ns) { return ns < 0; })) return std::string{"< 0"};
                     return test::difference(own, right, comm.rank().value(), outcome);
                   });
    }
  }
}

TEST_CASE("T46: notify of the next step while a slow rank still reads the answers of this one") {
  constexpr int kPeers = 3;
  for (const std::int32_t cores : {1, 2}) {
    test::Gate gate{.slow = Rank{1}, .held_op = "combine_normal"};
    gate.until = &gate.notify;
    gate.count = 2 * kPeers;  // one barrier in each of two steps
    const std::vector<EpCase> cases = {make_case(46, {.topk = 4}), make_case(47, {.topk = 4, .tokens = {9, 1, 0, 6}})};
    CHECK(test::run_cases(cases, {.cores = cores, .steps = 2, .decorate = test::gated(gate)}) == "");
  }
}

TEST_CASE("T68: a slow rank reads the rows of a dispatch while its peers are through with combine and dispatch again") {
  constexpr int kPeers = 3;
  test::Gate gate{.slow = Rank{1}, .held_op = {}};
  const EpCase input = make_case(68, {.topk = 4});
  const test::Expected expected = test::expect(input);
  EpCase next = input;
  next.seed = 69;
  on_each_rank(input, {.cores = 1, .decorate = test::gated(gate)},
               [&](runtime::Communicator& comm, const test::Room& room) -> Result<std::string> {
                 const Result<test::Tables> tables = test::run_tables(comm, input, room.counts[0]);
                 if (!tables) return tables.error();
                 const Result<test::Outcome> outcome = test::run_rows(comm, input, room, *tables);
                 if (!outcome) return outcome.error();
                 const std::vector<std::byte>& right = expected.received[comm.rank().index()];
                 if (comm.rank() == gate.slow) {
                   test::Gate::wait_for(gate.dispatch,
                                        3 * kPeers);  // two barriers of the first, the entry of the second
                   const auto rows = comm.local<std::byte>(room.recv_x, right.size());
                   if (!std::equal(rows.begin(), rows.end(), right.begin())) return std::string{"rows have changed"};
                 }
                 const auto again = test::run_rows(comm, next, room, *tables);
                 if (!again) return again.error();
                 return test::difference(next, test::expect(next), comm.rank().value(), *again);
               });
}

TEST_CASE("T55: two dispatches, then their two combines: both results are alive at once") {
  const EpCase first = make_case(55, {.topk = 3, .tokens = {4, 0, 7, 2}});
  const EpCase second = make_case(56, {.topk = 4, .tokens = {1, 6, 3, 5}});
  const test::Expected expected[] = {test::expect(first), test::expect(second)};
  for (const std::int32_t cores : {1, 3}) {
    on_each_rank(first, {.cores = cores, .decorate = test::pauses(test::seed_of_run())},
                 [&](runtime::Communicator& comm, const test::Room& room) -> Result<std::string> {
                   const Result<test::Room> other = test::allocate_room(comm, {&second, 1});
                   if (!other) return other.error();
                   for (int step = 0; step < 5; ++step) {
                     const auto a = test::run_tables(comm, first, room.counts[step % 2]);
                     if (!a) return a.error();
                     const auto b = test::run_tables(comm, second, other->counts[step % 2]);
                     if (!b) return b.error();
                     test::Outcome outcomes[2];
                     Result<void> done = test::run_dispatch(comm, first, room, *a, outcomes[0]);
                     if (done) done = test::run_dispatch(comm, second, *other, *b, outcomes[1]);
                     if (done) done = test::run_combine(comm, first, room, *a, outcomes[0]);
                     if (done) done = test::run_combine(comm, second, *other, *b, outcomes[1]);
                     if (!done) return done.error();
                     const std::string found = test::difference(first, expected[0], comm.rank().value(), outcomes[0]) +
                                               test::difference(second, expected[1], comm.rank().value(), outcomes[1]);
                     if (!found.empty()) return found;
                   }
                   return std::string{};
                 });
  }
}

TEST_CASE("T59: one to seven combines in a row, whichever rank is slow") {
  const EpCase input = make_case(59, {.topk = 3});
  const test::Expected expected = test::expect(input);
  for (Rank slow{0}; slow.value() < input.ranks(); ++slow) {
    const auto pause = test::pauses(test::seed_of_run());
    const auto pauses_of_one = [&](std::unique_ptr<shmem::Fabric> next, Rank rank, Core core) {
      return rank == slow ? pause(std::move(next), rank, core) : std::move(next);
    };
    on_each_rank(input, {.cores = 2, .decorate = pauses_of_one},
                 [&](runtime::Communicator& comm, const test::Room& room) -> Result<std::string> {
                   const Result<test::Tables> tables = test::run_tables(comm, input, room.counts[0]);
                   if (!tables) return tables.error();
                   for (const int rounds : {1, 2, 3, 7}) {
                     test::Outcome outcome;
                     Result<void> done = test::run_dispatch(comm, input, room, *tables, outcome);
                     if (done) done = test::run_combine(comm, input, room, *tables, outcome);
                     for (int round = 1; done && round < rounds; ++round) {
                       std::fill(outcome.combined.begin(), outcome.combined.end(), test::kNoNumber);
                       done = ops::combine_normal(comm, test::combine_args(input, room, *tables, outcome.combined));
                     }
                     if (!done) return done.error();
                     const std::string found = test::difference(input, expected, comm.rank().value(), outcome);
                     if (!found.empty()) return found;
                   }
                   return std::string{};
                 });
  }
}

TEST_CASE("T52: steps of different T and H take turns on one set of buffers, 1000 times") {
  std::vector<EpCase> cases;
  for (const std::int64_t tokens : {1, 2, 8, 64}) {
    for (const std::int64_t hidden : {64, 128}) {
      cases.push_back(make_case(static_cast<std::uint64_t>(tokens * 1000 + hidden),
                                {.hidden = hidden, .tokens = {tokens, tokens, tokens, tokens}}));
    }
  }
  CHECK(test::run_cases(cases, {.cores = 2, .steps = 1000}) == "");
}

TEST_CASE("T56: one rank sends all its tokens to experts 0 and 1, the others drop theirs") {
  const auto skewed = [](std::int64_t rank, std::int64_t, std::int64_t k) { return rank == 0 ? k : -1; };
  CHECK(test::run_case(make_case(56, {.hidden = 2, .tokens = {256, 9, 9, 9}, .weights = false}, skewed),
                       {.cores = 2, .steps = 1024}) == "");
  CHECK(test::run_case(make_case(57, {.hidden = 2, .tokens = {1024, 9, 9, 9}, .weights = false}, skewed),
                       {.cores = 3, .steps = 64}) == "");
}

TEST_CASE("T35: all but ten tokens of 2304 choose the same eight of 288 experts, on 16 ranks") {
  const auto same = [](std::int64_t rank, std::int64_t token, std::int64_t k) {
    return token < 10 ? (rank * 31 + token * 7 + k * 36) % 288 : 3 + k * 17;
  };
  const EpCase input =
      make_case(35, {.experts = 288, .topk = 8, .hidden = 1, .tokens = std::vector<std::int64_t>(16, 2304)}, same);
  CHECK(test::run_case(input, {.cores = 2}) == "");
  const auto outcomes = test::outcomes_of(input, {.cores = 3});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  std::map<std::int64_t, std::int64_t> counts;
  for (std::int64_t rank = 0; rank < 16; ++rank) {
    for (std::int64_t token = 0; token < 2304; ++token) {
      for (std::int64_t k = 0; k < 8; ++k) ++counts[same(rank, token, k)];
    }
  }
  for (std::int64_t expert = 0; expert < 288; ++expert) {
    const auto owner = static_cast<std::size_t>(expert / 18);
    CHECK((*outcomes)[owner].notify.recv_tokens_per_expert[static_cast<std::size_t>(expert % 18)] == counts[expert]);
  }
}

TEST_CASE("T118: a combined value is within one rounding of the exact sum") {
  const EpCase input = make_case(118, {.topk = 8, .hidden = 200, .tokens = {40, 40, 40, 40}});
  const test::Expected expected = test::expect(input);
  const auto outcomes = test::outcomes_of(input, {.cores = 2});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const auto& own = input.problem.ranks[static_cast<std::size_t>(rank)];
    const std::vector<std::byte> x = input.tokens_of(rank);
    for (std::int64_t t = 0; t < own.tokens; ++t) {
      for (std::int64_t j = 0; j < input.hidden; ++j) {
        double exact = 0;
        double size = 0;
        for (std::int64_t k = 0; k < 8; ++k) {
          const auto pair = static_cast<std::size_t>(t * 8 + k);
          std::byte answer[2];
          const std::byte* element = x.data() + (t * input.hidden + j) * 2;
          test::apply_expert(DType::bf16, own.topk_idx[pair], {element, 2}, answer);
          const double term = static_cast<double>(ops::reference::load(DType::bf16, answer, 0)) *
                              static_cast<double>(own.weights[pair]);
          exact += term;
          size += std::fabs(term);
        }
        const auto found = static_cast<double>(ops::reference::load(
            DType::bf16, (*outcomes)[static_cast<std::size_t>(rank)].combined, t * input.hidden + j));
        REQUIRE(std::fabs(found - exact) <= std::fabs(exact) * 0x1p-8 + size * 0x1p-20);
      }
    }
  }
}

TEST_CASE("T119: a token's sum is the same in any batch and any schedule, 50 times") {
  const EpCase input = make_case(119, {.topk = 6, .hidden = 24, .tokens = {12, 12, 12}, .dropped_percent = 5});
  std::vector<std::int64_t> order(12);
  std::mt19937_64 random(test::seed_of_run());
  MESSAGE("SHMOE_TEST_SEED=" << test::seed_of_run());
  const std::vector<std::vector<std::byte>> right = test::expect(input).combined;
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const auto outcomes =
        test::outcomes_of(test::rebatched(input, order),
                          {.cores = 1 + repeat % 3, .decorate = repeat % 5 == 0 ? test::pauses(random()) : nullptr});
    REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
    for (std::size_t rank = 0; rank < right.size(); ++rank) {
      for (std::size_t t = 0; t < order.size(); ++t) {
        const std::size_t row = input.row_bytes();
        const auto seen = (*outcomes)[rank].combined.begin() + static_cast<std::ptrdiff_t>(t * row);
        const auto alone = right[rank].begin() + order[t] * static_cast<std::ptrdiff_t>(row);
        CHECK(std::equal(seen, seen + static_cast<std::ptrdiff_t>(row), alone));
      }
    }
  }
}
