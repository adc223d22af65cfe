// Reported cases of low-latency paths: see tests/cases.md.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "ops/low_latency/buffers.hpp"
#include "tests/ops/difference.hpp"
#include "tests/ops/low_latency_fixture.hpp"
#include "tests/ops/refusal.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using test::check_told;
using test::LowLatencyBench;
using test::LowLatencyCase;
using test::LowLatencyExpected;
using test::LowLatencyStep;
using test::make_case;
using test::on_low_latency_ranks;
using test::run_low_latency;
using test::Setup;

namespace {

/// As it is, and with random pauses in at most `pausing` of its steps.
void check_with_and_without_pauses(std::span<const LowLatencyCase> cases, Setup setup, std::int64_t pausing) {
  for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
    setup.decorate = decorate;
    if (decorate) setup.steps = std::min(setup.steps, pausing);
    CHECK(run_low_latency(cases, setup) == "");
  }
}
void check_with_and_without_pauses(const LowLatencyCase& input, const Setup& setup, std::int64_t pausing = 4) {
  check_with_and_without_pauses({&input, 1}, setup, pausing);
}

/// The words that were sent to a slot, and those that its owner waited for.
struct SlotWords {
  std::multiset<std::uint64_t> sent, awaited;
};
struct SlotLedger {
  std::mutex mutex;
  std::map<std::pair<Rank, Slot>, SlotWords> slots;
};

/// Writes down both.
class LedgerFabric final : public shmem::PassingFabric {
 public:
  LedgerFabric(std::unique_ptr<shmem::Fabric> next, SlotLedger& ledger)
      : PassingFabric(std::move(next)), ledger_(&ledger) {}

  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override {
    {
      const std::scoped_lock lock(ledger_->mutex);
      ledger_->slots[{dst, slot}].sent.insert(value);
    }
    next().signal(dst, slot, op, value, site);
  }
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override {
    {
      const std::scoped_lock lock(ledger_->mutex);
      for (const Slot slot : spec.slots) ledger_->slots[{spec.where, slot}].awaited.insert(spec.value);
    }
    return next().wait(spec, site);
  }

 private:
  SlotLedger* ledger_;
};

/// A buffer that holds nothing for a rank is empty and no error, whatever asks for its rows.
Result<void> check_nothing_received(runtime::Communicator& comm, const LowLatencyCase& input,
                                    const LowLatencyExpected& expected, Rank idle) {
  auto buffers = ops::LowLatencyBuffers::allocate(
      comm, {.capacity = expected.answer.total_recv_tokens, .hidden = input.base.hidden});
  if (!buffers) return buffers.error();
  const ops::LowLatencyBuffers::Half& half = buffers->next();
  ops::LowLatencyTables tables;
  LowLatencyStep step(comm, input, expected, {half.expand_x, half.expert_out, half.dynamic_scales}, tables);
  if (auto sent = ops::dispatch_low_latency(comm, step.dispatch_args(), tables); !sent) return sent;
  const std::size_t rows = half.received(tables).size() / input.base.row_bytes();
  CHECK((rows == 0) == (comm.rank() == idle));
  CHECK(half.answers(tables).size() == half.received(tables).size());
  CHECK(tables.recv_rows == static_cast<std::int64_t>(rows));
  step.run_experts();
  step.clear_sums();
  if (auto summed = ops::combine_low_latency(comm, step.combine_args()); !summed) return summed;
  return test::no_difference(step.sums_difference());
}

/// Each half is refused a second time.
Result<void> call_in_halves(runtime::Communicator& comm, LowLatencyStep& step, ops::LowLatencyTables& tables) {
  step.clear_rows();
  if (auto sent = ops::dispatch_begin(comm, step.dispatch_args(), tables); !sent) return sent;
  if (auto received = ops::dispatch_finish(comm, tables); !received) return received;
  check_told(ops::dispatch_finish(comm, tables), Errc::invalid_argument, "no rows are on their way");
  CHECK(tables.stage == ops::LowLatencyStage::received);
  CHECK(step.received_difference() == "");
  step.run_experts();
  step.clear_sums();
  if (auto told = ops::combine_begin(comm, step.combine_args()); !told) return told;
  if (auto summed = ops::combine_finish(comm, step.combine_args()); !summed) return summed;
  check_told(ops::combine_finish(comm, step.combine_args()), Errc::invalid_argument, "no combine is in flight");
  CHECK(step.sums_difference() == "");
  return {};
}

/// The next dispatch is sent before the combine is received, eight times.
Result<void> call_crosswise(LowLatencyBench& bench, const LowLatencyCase& input, const LowLatencyExpected& expected) {
  ops::LowLatencyTables tables[2];
  LowLatencyStep steps[2] = {{bench.comm, input, expected, bench.rooms[0], tables[0]},
                             {bench.comm, input, expected, bench.rooms[1], tables[1]}};
  std::string found;
  if (auto sent = ops::dispatch_low_latency(bench.comm, steps[0].dispatch_args(), tables[0]); !sent) return sent;
  for (int round = 0; round < 8; ++round) {
    LowLatencyStep& now = steps[round % 2];
    LowLatencyStep& next = steps[1 - round % 2];
    ops::LowLatencyTables& sent_to = tables[1 - round % 2];
    now.run_experts();
    now.clear_sums();
    next.clear_rows();
    if (auto told = ops::combine_begin(bench.comm, now.combine_args()); !told) return told;
    if (auto sent = ops::dispatch_begin(bench.comm, next.dispatch_args(), sent_to); !sent) return sent;
    if (auto summed = ops::combine_finish(bench.comm, now.combine_args()); !summed) return summed;
    if (found.empty()) found = now.sums_difference();
    if (auto received = ops::dispatch_finish(bench.comm, sent_to); !received) return received;
    if (found.empty()) found = next.received_difference();
  }
  return test::no_difference(found);
}

/// Any bits for each rank: of its tokens, or of their pairs.
std::vector<std::vector<std::uint8_t>> random_masks(std::mt19937_64& random, std::size_t ranks, std::size_t entries) {
  std::vector<std::vector<std::uint8_t>> masks(ranks, std::vector<std::uint8_t>(entries));
  for (auto& mask : masks) {
    for (std::uint8_t& entry : mask) entry = static_cast<std::uint8_t>(random() >> 63);
  }
  return masks;
}

}  // namespace

TEST_CASE("T02, T124: low latency where ranks have no tokens, and where a rank receives nothing") {
  LowLatencyCase input{
      .base = make_case(2, {.experts = 8, .topk = 2, .hidden = 16, .tokens = {0, 5, 0, 7}},
                        [](std::int64_t, std::int64_t token, std::int64_t k) { return token % 2 + 2 * k; })};
  CHECK(expect(input).received[3].empty());
  check_with_and_without_pauses(input, {.cores = 2, .steps = 3});
  input.base = make_case(3, {.experts = 8, .topk = 2, .hidden = 16, .tokens = {0, 0, 0, 0}});
  check_with_and_without_pauses(input, {.cores = 2, .steps = 2});
}

TEST_CASE(
    "T05: empty batches without weights, in two halves; a half that is finished twice is refused and harms nothing") {
  for (const std::vector<std::int64_t>& tokens : {std::vector<std::int64_t>{0, 0}, std::vector<std::int64_t>{0, 3}}) {
    const LowLatencyCase input{
        .base = make_case(5, {.experts = 4, .topk = 2, .hidden = 8, .tokens = tokens, .weights = false})};
    const LowLatencyExpected expected = expect(input);
    const auto body = [&](LowLatencyBench& bench) -> Result<void> {
      ops::LowLatencyTables tables;
      LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
      for (int call = 0; call < 3; ++call) {
        if (Result<void> done = call_in_halves(bench.comm, step, tables); !done) return done;
      }
      return {};
    };
    for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
      CHECK(on_low_latency_ranks(input, {.cores = 2, .decorate = decorate}, body) == "");
    }
  }
}

TEST_CASE("T07: shared experts in every second call") {
  LowLatencyCase with{.base = make_case(7, {.experts = 4, .topk = 2, .hidden = 8, .tokens = {2, 3, 1}})};
  with.shared = {.experts = 1, .ranks = 2};
  const LowLatencyCase cases[] = {with,
                                  {.base = make_case(8, {.experts = 4, .topk = 2, .hidden = 8, .tokens = {2, 3, 1}})}};
  check_with_and_without_pauses(cases, {.cores = 2, .steps = 6}, 6);
}

TEST_CASE("T07: every word that is sent is awaited and the other way round, with shared experts in every second call") {
  LowLatencyCase with{.base = make_case(7, {.experts = 4, .topk = 2, .hidden = 8, .tokens = {2, 0, 1}})};
  with.shared = {.experts = 1, .ranks = 2};
  const LowLatencyCase cases[] = {with,
                                  {.base = make_case(8, {.experts = 4, .topk = 2, .hidden = 8, .tokens = {2, 3, 0}})}};
  constexpr std::size_t kCalls = 6;
  for (const std::int32_t cores : {1, 2, 5}) {
    SlotLedger ledger;
    std::vector<shmem::SlotFamily> families;
    const auto before = [&](runtime::Communicator& comm) {
      if (comm.rank() != Rank{0}) return;
      for (const char* name : {"ll_status", "ll_dispatch_flag", "ll_combine_flag"}) {
        families.push_back(comm.slots().family(name));
      }
    };
    const auto decorate = [&](std::unique_ptr<shmem::Fabric> next, Rank, Core) -> std::unique_ptr<shmem::Fabric> {
      return std::make_unique<LedgerFabric>(std::move(next), ledger);
    };
    CHECK(run_low_latency(cases, {.cores = cores, .steps = kCalls, .before = before, .decorate = decorate}) == "");
    REQUIRE(families.size() == 3);
    for (const shmem::SlotFamily& family : families) {
      for (const Rank owner : {Rank{0}, Rank{1}, Rank{2}}) {
        for (const Rank source : {Rank{0}, Rank{1}, Rank{2}}) {
          std::size_t words = 0;
          for (std::uint64_t buffer = 0; buffer < family.buffers; ++buffer) {
            const SlotWords& slot = ledger.slots[{owner, family.at(buffer, source)}];
            CHECK(slot.sent == slot.awaited);
            words += slot.sent.size();
          }
          CHECK(words == (owner == source ? 0 : kCalls));
        }
      }
    }
  }
}

TEST_CASE("T31: masks from no token to all, few tokens and many; masked rows and what lies behind stay untouched") {
  for (const std::int64_t tokens : {1, 8, 255, 256, 8192}) {
    std::set<std::int64_t> counts = {0, 1, tokens / 2, tokens - 1, tokens};
    for (std::int64_t active = 0; tokens <= 8 && active < tokens; ++active) counts.insert(active);
    for (const std::int64_t active : counts) {
      CAPTURE(tokens);
      CAPTURE(active);
      LowLatencyCase input{.base = make_case(31, {.experts = 4, .topk = 2, .hidden = 4, .tokens = {tokens, tokens}})};
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(tokens), 0);
      std::fill_n(mask.begin(), active, std::uint8_t{1});
      input.mask = {mask, {mask.rbegin(), mask.rend()}};
      check_with_and_without_pauses(input, {.cores = 2});
    }
  }
}

TEST_CASE("T31: masks of any bits, of tokens and of pairs, few tokens and many") {
  std::mt19937_64 random(test::seed_of_run());
  for (const std::size_t tokens : {1U, 8U, 255U, 256U, 8192U}) {
    for (const std::size_t topk : {1U, 2U}) {  // 1: masks [T] of two choices; 2: [T, K]
      CAPTURE(tokens);
      CAPTURE(topk);
      const auto of_each = static_cast<std::int64_t>(tokens);
      LowLatencyCase input{.base = make_case(31, {.experts = 4, .topk = 2, .hidden = 4, .tokens = {of_each, of_each}})};
      input.mask = random_masks(random, 2, tokens * topk);
      check_with_and_without_pauses(input, {.cores = 2});
    }
  }
}

TEST_CASE("T32: with weights and without, on any number of ranks, experts and choices") {
  const runtime::FabricDecorator decorate = test::pauses_of_run();
  for (const std::int32_t ranks : {1, 2, 3, 5}) {
    for (const std::int32_t experts : {1, 4, 7, 16}) {
      for (const std::int32_t topk : {1, 2, 6}) {
        for (const bool weights : {true, false}) {
          if (topk > experts) continue;
          const LowLatencyCase input{
              .base = make_case(32, {.experts = experts,
                                     .topk = topk,
                                     .hidden = 8,
                                     .tokens = std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 3),
                                     .weights = weights})};
          CHECK(run_low_latency(input, {.cores = 2}) == "");
          CHECK(run_low_latency(input, {.cores = 2, .decorate = decorate}) == "");
        }
      }
    }
  }
}

TEST_CASE("T34: ranks that allocated for different numbers of tokens are told both") {
  const LowLatencyCase input{.base = make_case(34, {.experts = 4, .topk = 1, .hidden = 8, .tokens = {2, 2, 2}})};
  const LowLatencyExpected expected = expect(input);
  const auto body = [&](LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables;
    const LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
    ops::DispatchLowLatencyArgs args = step.dispatch_args();
    args.capacity = bench.comm.rank() == Rank{0} ? 8 : 6;
    const Result<void> told = ops::dispatch_low_latency(bench.comm, args, tables);
    CHECK(told.error().code == Errc::mismatch);
    CHECK(told.error().context ==
          "dispatch_low_latency: capacity is 6 on rank 1 and 8 on rank 0: every rank must pass the same");
    return {};
  };
  for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
    CHECK(on_low_latency_ranks(input, {.cores = 2, .decorate = decorate}, body) == "");
  }
}

TEST_CASE("T56: many tokens of one rank to two experts, and the other ranks drop everything, 1024 times") {
  for (const std::int64_t tokens : {256, 1024}) {
    const LowLatencyCase input{
        .base = make_case(56, {.experts = 8, .topk = 2, .hidden = 2, .tokens = {tokens, 4, 4, 4}},
                          [](std::int64_t rank, std::int64_t, std::int64_t k) { return rank == 0 ? k : -1; })};
    check_with_and_without_pauses(input, {.cores = 2, .steps = 1024}, 8);
  }
}

TEST_CASE("T67, T76: the next dispatch is sent before the last combine is received") {
  const LowLatencyCase input{.base = make_case(76, {.experts = 5, .topk = 2, .hidden = 8, .tokens = {3, 2, 4}})};
  const LowLatencyExpected expected = expect(input);
  const auto body = [&](LowLatencyBench& bench) { return call_crosswise(bench, input, expected); };
  for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
    CHECK(on_low_latency_ranks(input, {.cores = 2, .decorate = decorate}, body) == "");
  }
}

TEST_CASE("T124: of eight ranks one receives nothing: its rows are [0, H]") {
  const auto past_five = [](std::int64_t rank, std::int64_t token, std::int64_t k) {
    const std::int64_t expert = (rank + token + 3 * k) % 14;
    return expert < 10 ? expert : expert + 2;  // rank 5 holds experts 10 and 11
  };
  const LowLatencyCase input{
      .base = make_case(124, {.experts = 16, .topk = 2, .hidden = 8, .tokens = std::vector<std::int64_t>(8, 6)},
                        past_five)};
  const LowLatencyExpected expected = expect(input);
  const auto body = [&](LowLatencyBench& bench) {
    return check_nothing_received(bench.comm, input, expected, Rank{5});
  };
  for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
    CHECK(on_low_latency_ranks(input, {.cores = 2, .decorate = decorate}, body) == "");
  }
}

TEST_CASE("T122: one to many experts a rank") {
  for (const std::int32_t experts : {2, 3, 8, 16, 64}) {
    const LowLatencyCase input{
        .base = make_case(122, {.experts = experts, .topk = 2, .hidden = 8, .tokens = {6, 1}, .own_map = true})};
    check_with_and_without_pauses(input, {.cores = 3, .steps = 2});
  }
  for (const std::int32_t per_rank : {2, 4, 8}) {
    const LowLatencyCase input{.base = make_case(122, {.experts = 4 * per_rank, .topk = 4})};
    for (const std::int32_t cores : {1, 2, 5}) check_with_and_without_pauses(input, {.cores = cores, .steps = 2});
  }
}
