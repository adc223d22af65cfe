// Faults that users of systems like this one reported, as small inputs. The numbers are those of the case list.
// Unless a case says otherwise: R 4, E 16, K 2, H 64, and every buffer is filled with 0xA5 before each step.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ops/ep/pipeline.hpp"
#include "tests/ops/ep_fixture.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using test::EpCase;
using test::make_case;
using test::run_case;
using test::run_cases;
using test::Setup;
using test::Shape;

namespace {

using Tokens = std::vector<std::int64_t>;

Tokens same_tokens(std::int32_t ranks, std::int64_t tokens) { return Tokens(static_cast<std::size_t>(ranks), tokens); }

/// All core counts and both ways of access that the quick cases run with.
void check_everywhere(const EpCase& input) {
  for (const std::int32_t cores : {1, 2, 5}) {
    INFO("cores " << cores);
    CHECK(run_case(input, {.cores = cores, .views = cores != 2}) == "");
  }
}

void check_with_pauses(const EpCase& input, std::int64_t steps) {
  const runtime::FabricDecorator decorate = test::pauses_of_run();
  for (const std::int32_t cores : {1, 3}) {
    INFO("cores " << cores);
    CHECK(run_case(input, {.cores = cores, .views = cores == 1, .steps = steps, .decorate = decorate}) == "");
  }
}

/// One routing, several payloads: dispatch, experts and combine on the same tables.
void check_cached_tables(const EpCase& input, const Setup& setup) {
  std::vector<EpCase> repeats(3, input);
  for (std::size_t i = 0; i < repeats.size(); ++i) repeats[i].seed = 100 + i;
  std::vector<std::string> found(static_cast<std::size_t>(input.ranks()), "not run");
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<test::Room> room = test::allocate_room(comm, {&input, 1});
    if (!room) return room.error();
    const Result<test::Tables> tables = test::run_tables(comm, input, room->counts[0]);
    if (!tables) return tables.error();
    std::string& own = found[comm.rank().index()];
    own.clear();
    for (const EpCase& repeat : repeats) {
      const Result<test::Outcome> outcome = test::run_rows(comm, repeat, *room, *tables);
      if (!outcome) return outcome.error();
      if (own.empty()) own = test::difference(repeat, test::expect(repeat), comm.rank().value(), *outcome);
    }
    return comm.barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(
      input.ranks(), test::config_for(setup, test::heap_for({&input, 1})), body, setup.decorate);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  CHECK(found == std::vector<std::string>(found.size()));
}

}  // namespace

TEST_CASE("T01: a rank that receives nothing still takes part, 1000 times") {
  const auto to_rank_zero = [](std::int64_t rank, std::int64_t token, std::int64_t k) {
    return (rank + token + k) % 4;
  };
  const std::array cases = {make_case(1, {}, to_rank_zero), make_case(2, {}, to_rank_zero)};
  CHECK(run_cases(cases, {.cores = 1, .steps = 1000}) == "");
  CHECK(run_cases(cases, {.cores = 2, .steps = 100}) == "");
  CHECK(run_cases(cases, {.cores = 2, .steps = 50, .decorate = test::pauses_of_run()}) == "");
}

TEST_CASE("T02: ranks without tokens") {
  check_everywhere(make_case(2, {.tokens = {0, 5, 0, 7}}));
  check_with_pauses(make_case(2, {.tokens = {0, 5, 0, 7}}), 5);
  // Only the ranks without tokens receive: each token goes to expert 1 of rank 0 and to expert 9 of rank 2.
  const EpCase input =
      make_case(2, {.tokens = {0, 5, 0, 7}}, [](std::int64_t, std::int64_t, std::int64_t k) { return k == 0 ? 1 : 9; });
  check_everywhere(input);
  const auto outcomes = test::outcomes_of(input, {.cores = 2});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  const std::vector<std::int64_t> all_for_one{0, 12, 0, 0};
  CHECK((*outcomes)[0].notify.recv_tokens_per_expert == all_for_one);
  CHECK((*outcomes)[2].notify.recv_tokens_per_expert == all_for_one);
  CHECK((*outcomes)[1].notify.recv_rows == 0);
  CHECK((*outcomes)[3].notify.recv_rows == 0);
  std::vector<std::byte> rows = input.tokens_of(1);
  const std::vector<std::byte> later = input.tokens_of(3);
  rows.insert(rows.end(), later.begin(), later.end());
  for (const std::size_t rank : {0U, 2U}) {
    const std::vector<std::byte>& received = (*outcomes)[rank].received;
    REQUIRE(received.size() >= rows.size());
    CHECK(std::equal(rows.begin(), rows.end(), received.begin()));
    CHECK((*outcomes)[rank].layout.send_token_idx.empty());
    CHECK((*outcomes)[rank].layout.num_tokens_per_rank == std::vector<std::int32_t>(4, 0));
  }
}

TEST_CASE("T04: no tokens on rank 2, then the tables serve further dispatches and combines with other tokens") {
  const EpCase input = make_case(4, {.tokens = {5, 3, 0, 6}});
  check_cached_tables(input, {.cores = 3});
  check_cached_tables(input, {.cores = 2, .views = false, .weak_seed = 4});
  check_cached_tables(input, {.cores = 3, .decorate = test::pauses_of_run()});
}

TEST_CASE("T08: the counts of the experts are 64-bit counts, and put_offset stays flat over unused experts") {
  const EpCase input = make_case(
      8, {}, [](std::int64_t rank, std::int64_t token, std::int64_t k) { return (rank + token + k) % 2 == 0 ? 3 : 9; });
  check_everywhere(input);
  const auto outcomes = test::outcomes_of(input, {.cores = 5});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  CHECK((*outcomes)[0].notify.recv_tokens_per_expert == std::vector<std::int64_t>{0, 0, 0, 20});
  CHECK((*outcomes)[1].notify.recv_tokens_per_expert == std::vector<std::int64_t>{0, 0, 0, 0});
  CHECK((*outcomes)[2].notify.recv_tokens_per_expert == std::vector<std::int64_t>{0, 20, 0, 0});
  const std::vector<std::int64_t>& offsets = (*outcomes)[3].notify.put_offset;
  for (std::size_t entry = 0; entry < 4 * 4; ++entry) {
    const std::size_t expert = entry / 4;
    CHECK(offsets[entry] == (expert == 3 ? static_cast<std::int64_t>(entry % 4) * 5 : 0));
    CHECK(offsets[4 * 10 + entry % 8] == 20);  // experts 10 and 11 come after the 20 rows of expert 9
  }
}

TEST_CASE("T10: quantised rows on ranks that receive none: nothing to open, and nothing fails") {
  const EpCase input =
      make_case(10, {.quant = ops::Quant::int8}, [](std::int64_t, std::int64_t, std::int64_t k) { return k; });
  check_everywhere(input);
  const auto outcomes = test::outcomes_of(input, {});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  CHECK((*outcomes)[0].notify.recv_rows == 40);
  for (const std::size_t rank : {1U, 2U, 3U}) CHECK((*outcomes)[rank].notify.recv_rows == 0);
}

TEST_CASE("T11: one rank, or no tokens anywhere") {
  check_everywhere(make_case(11, {.tokens = {5}}));
  check_everywhere(make_case(11, {.tokens = {0}}));
  check_everywhere(make_case(11, {.tokens = {0, 0, 0, 0}}));
}

TEST_CASE("T13: most ranks' experts receive nothing in a step, 1000 times") {
  const EpCase input = make_case(13, {.experts = 64, .topk = 10, .hidden = 4, .tokens = same_tokens(4, 1)});
  CHECK(run_case(input, {.steps = 1000}) == "");
  CHECK(run_case(input, {.cores = 3, .steps = 50}) == "");
}

TEST_CASE("T14: one to three tokens, one expert of a token to all of them") {
  for (const std::int64_t tokens : {1, 2, 3}) {
    for (const std::int32_t topk : {1, 4, 16}) {
      check_everywhere(
          make_case(static_cast<std::uint64_t>(tokens * 100 + topk), {.topk = topk, .tokens = same_tokens(4, tokens)}));
    }
  }
}

TEST_CASE("T19: any top-k") {
  for (const std::int32_t topk : {1, 9, 10, 11, 16, 22, 32}) {
    CHECK(run_case(make_case(19, {.experts = 32, .topk = topk}), {.cores = 3}) == "");
  }
}

TEST_CASE("T22: rows of any length, plain and quantised") {
  for (const std::int64_t hidden : {1, 7, 100, 130, 7172}) {
    for (const ops::Quant quant : {ops::Quant::none, ops::Quant::int8}) {
      check_everywhere(make_case(22, {.hidden = hidden, .quant = quant}));
    }
  }
}

TEST_CASE("T23: rows that are no multiple of 16 bytes") {
  for (const std::int64_t hidden : {1, 3, 9, 17}) check_everywhere(make_case(23, {.hidden = hidden}));
}

TEST_CASE("T25: more experts than a table of sizes would allow") {
  for (const std::int32_t experts : {383, 384, 385, 512, 1024}) {
    CHECK(run_case(make_case(25, {.experts = experts, .topk = 8, .tokens = {30, 1, 0, 12}}), {.cores = 5}) == "");
  }
}

TEST_CASE("T26: experts per rank that are no multiple of 8") {
  for (const std::int32_t per_rank : {1, 3, 5, 9}) check_everywhere(make_case(26, {.experts = 4 * per_rank}));
}

TEST_CASE("T28: any number of ranks") {
  for (const std::int32_t ranks : {3, 6, 12, 24}) {
    CHECK(run_case(make_case(28, {.experts = 48, .tokens = same_tokens(ranks, 3)}), {.cores = 2, .steps = 3}) == "");
  }
  CHECK(run_case(make_case(28, {.experts = 160, .hidden = 4, .tokens = same_tokens(160, 1)})) == "");
}

TEST_CASE("T29: 60 experts on 8 ranks, evenly and by an owner table") {
  const EpCase even = make_case(29, {.experts = 60, .topk = 4, .tokens = same_tokens(8, 6)});
  check_everywhere(even);
  const auto outcomes = test::outcomes_of(even, {});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  CHECK((*outcomes)[0].notify.recv_tokens_per_expert.size() == 8);
  CHECK((*outcomes)[7].notify.recv_tokens_per_expert.size() == 4);
  check_everywhere(make_case(29, {.experts = 60, .topk = 4, .tokens = same_tokens(8, 6), .own_map = true}));
}

TEST_CASE("T29: fewer experts than ranks") {
  check_everywhere(make_case(30, {.experts = 2, .tokens = {4, 4, 4, 4, 4}}));
  check_everywhere(make_case(30, {.experts = 1, .topk = 1, .tokens = {4, 0, 9}}));
}

TEST_CASE("T32: weights may be absent") {
  for (const std::int32_t topk : {1, 2, 8}) check_everywhere(make_case(32, {.topk = topk, .weights = false}));
  for (const std::int32_t ranks : {1, 2, 3, 5}) {
    for (const std::int32_t experts : {1, 4, 7, 16}) {
      for (const std::int32_t topk : {1, 2, 6}) {
        for (const bool weights : {true, false}) {
          if (topk > experts) continue;
          const EpCase input = make_case(
              33, {.experts = experts, .topk = topk, .hidden = 8, .tokens = same_tokens(ranks, 3), .weights = weights});
          CHECK(run_case(input, {.cores = 2}) == "");
        }
      }
    }
  }
}

TEST_CASE("T44: each row is its (source, token, expert), with several experts on a rank") {
  EpCase input = make_case(44, {.experts = 12, .topk = 6, .hidden = 8, .dtype = DType::fp32});
  check_everywhere(input);
  input = make_case(44, {.experts = 12, .topk = 6, .hidden = 8, .dtype = DType::fp32, .own_map = true});
  check_everywhere(input);
  check_with_pauses(input, 5);
}

TEST_CASE("T47: counts in memory full of 0xA5, for experts in no multiple of a vector") {
  for (const std::int32_t experts : {1, 7, 9, 12, 20, 28, 33}) {
    check_everywhere(make_case(47, {.experts = experts, .topk = std::min(experts, 2)}));
  }
}

TEST_CASE("T50: from one token to 131072 on one set of buffers") {
  std::vector<EpCase> sweep;
  for (const std::int64_t tokens : {1, 2, 8, 32, 128, 1024, 16384, 131072}) {
    const auto seed = static_cast<std::uint64_t>(tokens);
    sweep.push_back(make_case(seed, {.experts = 6, .topk = 1, .hidden = 1, .tokens = same_tokens(2, tokens)}));
  }
  CHECK(run_cases(sweep, {.cores = 2, .steps = std::ssize(sweep)}) == "");
}

TEST_CASE("T58: combine starts from zero whatever the output held; a token whose pairs are all dropped gets zeros") {
  const EpCase input = make_case(58, {.tokens = {3, 3}},
                                 [](std::int64_t, std::int64_t token, std::int64_t) { return token == 1 ? -1 : 5; });
  check_everywhere(input);
  const auto outcomes = test::outcomes_of(input, {});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  for (std::size_t i = 128; i < 256; ++i) CHECK((*outcomes)[0].combined[i] == std::byte{0});
}

TEST_CASE("T61: rounds across 2^31 and 2^32") {
  const EpCase input = make_case(61, {});
  for (const std::uint64_t start : {(std::uint64_t{1} << 31) - 3, (std::uint64_t{1} << 32) - 3}) {
    const auto jump = [start](runtime::Communicator& comm) { runtime::test::jump_to(comm, start); };
    CHECK(run_case(input, {.cores = 3, .steps = 10, .before = jump}) == "");
  }
}

TEST_CASE("T62: the first call after creation, with one core and three, and in a second communicator") {
  const EpCase four = make_case(62, {});
  const EpCase two = make_case(63, {.experts = 6, .tokens = {7, 2}});
  const std::array cases = {four, two};
  const test::Expected expected_four = test::expect(four);
  const test::Expected expected_two = test::expect(two);
  for (const std::int32_t cores : {1, 3}) {
    std::vector<std::string> found(4);
    const auto body = [&](runtime::World& world) -> Result<void> {
      const std::array members = {Rank{world.rank().value() / 2 * 2}, Rank{world.rank().value() / 2 * 2 + 1}};
      const Result<runtime::Communicator*> pair = world.communicator(runtime::CommunicatorId{1}, members);
      if (!pair) return pair.error();
      const Result<test::Room> room = test::allocate_room(world.all(), cases);
      const Result<test::Room> pair_room = test::allocate_room(**pair, cases);
      if (!room || !pair_room) return room ? pair_room.error() : room.error();
      std::string& own = found[world.rank().index()];
      for (std::int64_t step = 0; step < 4; ++step) {
        const auto in_pair = test::run_step(**pair, two, *pair_room, step);
        if (!in_pair) return in_pair.error();
        const auto in_all = test::run_step(world.all(), four, *room, step);
        if (!in_all) return in_all.error();
        if (own.empty()) own = test::difference(two, expected_two, (*pair)->rank().value(), *in_pair);
        if (own.empty()) own = test::difference(four, expected_four, world.rank().value(), *in_all);
      }
      return world.all().barrier();
    };
    const Result<void> done =
        runtime::World::run_as_threads(4, test::config_for({.cores = cores}, test::heap_for(cases)), body);
    REQUIRE_MESSAGE(done, to_string(done.error()));
    CHECK(found == std::vector<std::string>(4));
  }
}

TEST_CASE("T64: calls in a row without a host barrier") {
  for (const std::int32_t cores : {1, 4}) CHECK(run_case(make_case(64, {}), {.cores = cores, .steps = 30}) == "");
  check_with_pauses(make_case(64, {}), 20);
}

TEST_CASE("T106: two ranks") {
  for (const std::int32_t experts : {1, 2, 5, 16}) {
    for (const std::int32_t topk : {1, 3, 8}) {
      if (topk > experts) continue;
      check_everywhere(make_case(106, {.experts = experts, .topk = topk, .tokens = {9, 4}, .dropped_percent = 10}));
    }
  }
}

TEST_CASE("T107: one rank") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    check_everywhere(make_case(107, {.experts = 5, .topk = 3, .dtype = dtype, .tokens = {12}, .dropped_percent = 10}));
  }
}

TEST_CASE("T122: more experts than ranks") {
  for (const std::int32_t per_rank : {2, 4, 8}) check_everywhere(make_case(122, {.experts = 4 * per_rank, .topk = 4}));
}

TEST_CASE("T124: of eight ranks one receives nothing: its rows are [0, H]") {
  const auto past_five = [](std::int64_t rank, std::int64_t token, std::int64_t k) {
    const std::int64_t expert = (rank + token + 3 * k) % 14;
    return expert < 10 ? expert : expert + 2;  // rank 5 holds experts 10 and 11
  };
  const EpCase input = make_case(124, {.hidden = 8, .tokens = same_tokens(8, 6)}, past_five);
  check_everywhere(input);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    auto buffers = ops::EpBuffers::allocate(comm, 16, DType::bf16, input.hidden);
    if (!buffers) return buffers.error();
    const Result<test::Tables> tables = test::run_tables(comm, input, buffers->next_counts());
    if (!tables) return tables.error();
    if (Result<void> room = buffers->reserve(tables->notify); !room) return room;
    const std::size_t rows = buffers->received(tables->notify.recv_rows).size() / input.row_bytes();
    CHECK((rows == 0) == (comm.rank() == Rank{5}));
    CHECK(buffers->answers(tables->notify.recv_rows).size() == rows * input.row_bytes());
    return comm.barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(8, test::config_for({}, Bytes{1U << 20}), body);
  CHECK_MESSAGE(done, to_string(done.error()));
}
