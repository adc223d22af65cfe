// Reported cases of low-latency paths: see tests/cases.md.

#include <doctest/doctest.h>

#include "tests/ops/low_latency_fixture.hpp"

using namespace shmoe;
using test::LowLatencyCase;
using test::LowLatencyExpected;
using test::LowLatencyRoom;
using test::LowLatencyStep;
using test::make_case;
using test::run_low_latency;

namespace {

/// Each rank with two rooms and a strange order of calls.
std::string run_calls(const LowLatencyCase& input,
                      const std::function<Result<void>(runtime::Communicator&, const LowLatencyRoom (&)[2])>& calls) {
  const auto body = [&](runtime::World& world) -> Result<void> {
    LowLatencyRoom rooms[2];
    for (LowLatencyRoom& room : rooms) {
      const auto made = test::allocate_low_latency_room(world.all(), {&input, 1});
      if (!made) return made.error();
      room = *made;
    }
    if (Result<void> done = calls(world.all(), rooms); !done) return done;
    return world.all().barrier();
  };
  const auto done =
      runtime::World::run_as_threads(input.base.ranks(), test::low_latency_config({.cores = 2}, {&input, 1}), body);
  return done ? std::string{} : to_string(done.error());
}

}  // namespace

TEST_CASE("T02, T124: low latency where ranks have no tokens, and where a rank receives nothing") {
  LowLatencyCase input{
      .base = make_case(2, {.experts = 8, .topk = 2, .hidden = 16, .tokens = {0, 5, 0, 7}},
                        [](std::int64_t, std::int64_t token, std::int64_t k) { return token % 2 + 2 * k; })};
  CHECK(expect(input).received[3].empty());
  CHECK(run_low_latency(input, {.cores = 2, .steps = 3}) == "");
  input.base = make_case(3, {.experts = 8, .topk = 2, .hidden = 16, .tokens = {0, 0, 0, 0}});
  CHECK(run_low_latency(input, {.cores = 2, .steps = 2}) == "");
}

TEST_CASE("T05: an empty batch without weights, received in two halves, and twice") {
  const LowLatencyCase input{
      .base = make_case(5, {.experts = 4, .topk = 2, .hidden = 8, .tokens = {0, 0}, .weights = false})};
  const LowLatencyExpected expected = expect(input);
  CHECK(run_calls(input, [&](runtime::Communicator& comm, const LowLatencyRoom(&rooms)[2]) -> Result<void> {
          ops::LowLatencyTables tables;
          const LowLatencyStep step(comm, input, expected, rooms[0], tables);
          if (auto sent = ops::dispatch_begin(comm, step.dispatch_args(), tables); !sent) return sent;
          if (auto received = ops::dispatch_finish(comm, tables); !received) return received;
          const Result<void> again = ops::dispatch_finish(comm, tables);
          CHECK(again.error().code == Errc::invalid_argument);
          CHECK(tables.stage == ops::LowLatencyStage::received);
          const ops::CombineLowLatencyArgs sums{.expert_out = rooms[0].expert_out, .tables = tables, .x = {}};
          if (auto told = ops::combine_begin(comm, sums); !told) return told;
          if (auto summed = ops::combine_finish(comm, sums); !summed) return summed;
          CHECK(ops::combine_finish(comm, sums).error().code == Errc::invalid_argument);
          return {};
        }) == "");
}

TEST_CASE("T07: shared experts in every second call") {
  LowLatencyCase with{.base = make_case(7, {.experts = 4, .topk = 2, .hidden = 8, .tokens = {2, 3, 1}})};
  with.shared = {.experts = 1, .ranks = 2};
  const LowLatencyCase cases[] = {with,
                                  {.base = make_case(8, {.experts = 4, .topk = 2, .hidden = 8, .tokens = {2, 3, 1}})}};
  CHECK(run_low_latency(cases, {.cores = 2, .steps = 6}) == "");
}

TEST_CASE("T31: masks from no token to all, and many tokens") {
  for (const std::int64_t tokens : {1, 8, 255, 256}) {
    for (const std::int64_t active : {std::int64_t{0}, tokens / 2, tokens}) {
      LowLatencyCase input{.base = make_case(31, {.experts = 4, .topk = 2, .hidden = 4, .tokens = {tokens, tokens}})};
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(tokens), 0);
      std::fill_n(mask.begin(), active, std::uint8_t{1});
      input.mask = {mask, mask};
      CHECK(run_low_latency(input, {.cores = 2}) == "");
    }
  }
}

TEST_CASE("T34: ranks that allocated for different numbers of tokens are told both") {
  const LowLatencyCase input{.base = make_case(34, {.experts = 4, .topk = 1, .hidden = 8, .tokens = {2, 2, 2}})};
  const LowLatencyExpected expected = expect(input);
  CHECK(run_calls(input, [&](runtime::Communicator& comm, const LowLatencyRoom(&rooms)[2]) -> Result<void> {
          ops::LowLatencyTables tables;
          const LowLatencyStep step(comm, input, expected, rooms[0], tables);
          ops::DispatchLowLatencyArgs args = step.dispatch_args();
          args.capacity = comm.rank() == Rank{0} ? 8 : 6;
          const Result<void> told = ops::dispatch_low_latency(comm, args, tables);
          CHECK(told.error().code == Errc::mismatch);
          CHECK(told.error().context ==
                "dispatch_low_latency: capacity is 6 on rank 1 and 8 on rank 0: every rank must pass the same");
          return {};
        }) == "");
}

TEST_CASE("T56: many tokens of one rank to two experts, and the other ranks drop everything") {
  const LowLatencyCase input{
      .base = make_case(56, {.experts = 8, .topk = 2, .hidden = 32, .tokens = {256, 4, 4, 4}},
                        [](std::int64_t rank, std::int64_t, std::int64_t k) { return rank == 0 ? k : -1; })};
  CHECK(run_low_latency(input, {.cores = 2, .steps = 16}) == "");
}

TEST_CASE("T67, T76: the next dispatch is sent before the last combine is received") {
  const LowLatencyCase input{.base = make_case(76, {.experts = 5, .topk = 2, .hidden = 8, .tokens = {3, 2, 4}})};
  const LowLatencyExpected expected = expect(input);
  CHECK(run_calls(input, [&](runtime::Communicator& comm, const LowLatencyRoom(&rooms)[2]) -> Result<void> {
          ops::LowLatencyTables tables[2];
          LowLatencyStep steps[2] = {{comm, input, expected, rooms[0], tables[0]},
                                     {comm, input, expected, rooms[1], tables[1]}};
          std::string found;
          if (auto sent = ops::dispatch_low_latency(comm, steps[0].dispatch_args(), tables[0]); !sent) return sent;
          for (int round = 0; round < 8; ++round) {
            LowLatencyStep& now = steps[round % 2];
            LowLatencyStep& next = steps[1 - round % 2];
            now.run_experts();
            now.clear_sums();
            next.clear_rows();
            if (auto told = ops::combine_begin(comm, now.combine_args()); !told) return told;
            if (auto sent = ops::dispatch_begin(comm, next.dispatch_args(), tables[1 - round % 2]); !sent) return sent;
            if (auto summed = ops::combine_finish(comm, now.combine_args()); !summed) return summed;
            if (found.empty()) found = now.sums_difference();
            if (auto received = ops::dispatch_finish(comm, tables[1 - round % 2]); !received) return received;
            if (found.empty()) found = next.received_difference();
          }
          CHECK(found == "");
          return {};
        }) == "");
}

TEST_CASE("T122: one to many experts a rank") {
  for (const std::int32_t experts : {2, 3, 8, 16, 64}) {
    const LowLatencyCase input{
        .base = make_case(122, {.experts = experts, .topk = 2, .hidden = 8, .tokens = {6, 1}, .own_map = true})};
    CHECK(run_low_latency(input, {.cores = 3, .steps = 2}) == "");
  }
}
