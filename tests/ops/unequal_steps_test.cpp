// Ranks that do not make the same steps: more chunks than their peers, or an early end.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/ops/ep_fixture.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using test::EpCase;
using test::make_case;
namespace support = shmoe::runtime::test;

namespace {

constexpr std::int64_t kChunk = 32;

/// The step of chunk i has at most kChunk tokens of each rank, or none where a rank has no more.
std::vector<EpCase> chunks_of(const std::vector<std::int64_t>& tokens, std::int64_t chunks) {
  std::vector<EpCase> steps;
  for (std::int64_t i = 0; i < chunks; ++i) {
    std::vector<std::int64_t> part;
    for (const std::int64_t all : tokens) part.push_back(std::clamp<std::int64_t>(all - i * kChunk, 0, kChunk));
    steps.push_back(make_case(490 + static_cast<std::uint64_t>(i), {.tokens = part}));
  }
  return steps;
}

/// The error of the rank that has the proof.
std::string proof_among(const support::Outcomes& outcomes) {
  std::string proof;
  for (const std::optional<Error>& outcome : outcomes) {
    if (outcome && outcome->code == Errc::deadlock && !support::contains(outcome->context, "gave up: ")) {
      CHECK(proof.empty());
      proof = outcome->context;
    }
  }
  return proof;
}

}  // namespace

TEST_CASE("T49: ranks with 10 and 100 tokens make as many chunks of 32 as the most tokens of a rank need") {
  const std::vector<std::int64_t> tokens = {10, 100};
  const EpCase whole = make_case(49, {.tokens = tokens});
  const std::vector<EpCase> chunks = chunks_of(tokens, 4);
  std::vector<EpCase> all = chunks;
  all.push_back(whole);
  std::vector<std::string> found(2, "not run");
  support::check_all_well(support::run_ranks(
      2, test::config_for({.cores = 2}, test::heap_for(all)), [&](runtime::World& world) -> Result<void> {
        const Result<test::Room> room = test::allocate_room(world.all(), all);
        if (!room) return room.error();
        const Result<test::Tables> tables = test::run_tables(world.all(), whole, room->counts[0]);
        if (!tables) return tables.error();
        const std::int64_t agreed = (tables->notify.max_bs + kChunk - 1) / kChunk;
        CHECK(agreed == 4);
        std::string& own = found[world.rank().index()];
        own.clear();
        for (std::int64_t i = 0; i < agreed; ++i) {
          const EpCase& chunk = chunks[static_cast<std::size_t>(i)];
          const Result<test::Outcome> outcome = test::run_step(world.all(), chunk, *room, i + 1);
          if (!outcome) return outcome.error();
          own += test::difference(chunk, test::expect(chunk), world.rank().value(), *outcome);
        }
        return world.all().barrier();
      }));
  CHECK(found == std::vector<std::string>(2));
}

TEST_CASE("T49: a rank that makes fewer chunks than its peer is named, whatever it does next") {
  const std::vector<EpCase> chunks = chunks_of({10, 100}, 4);
  for (const bool goes_on : {false, true}) {
    CAPTURE(goes_on);
    const support::Outcomes outcomes =
        support::run_ranks(2, test::config_for({}, test::heap_for(chunks)), [&](runtime::World& world) -> Result<void> {
          const Result<test::Room> room = test::allocate_room(world.all(), chunks);
          if (!room) return room.error();
          const std::int64_t own = world.rank() == Rank{0} ? 1 : 4;
          for (std::int64_t i = 0; i < own; ++i) {
            const auto done = test::run_step(world.all(), chunks[static_cast<std::size_t>(i)], *room, i);
            if (!done) return done.error();
          }
          return goes_on ? world.all().barrier() : Result<void>{};
        });
    REQUIRE(outcomes[1]);
    CAPTURE(support::text_of(outcomes[1]));
    if (goes_on) {
      REQUIRE(outcomes[0]);
      for (const std::optional<Error>& outcome : outcomes) {
        CHECK(outcome->code == Errc::mismatch);
        CHECK(
            support::contains(outcome->context,
                              "rank 1 calls notify while rank 0 calls barrier: every rank must call the same operators "
                              "in the same order"));
      }
      continue;
    }
    CHECK_FALSE(outcomes[0]);
    CHECK(outcomes[1]->code == Errc::deadlock);
    CHECK(support::contains(outcomes[1]->context, "rank 0 ended after "));
  }
}

TEST_CASE("T88: a rank that ends after dispatch is named by those who wait for it in combine") {
  const EpCase input = make_case(88, {});
  const support::Outcomes outcomes = support::run_ranks(
      4, test::config_for({.cores = 2}, test::heap_for({&input, 1})), [&](runtime::World& world) -> Result<void> {
        const Result<test::Room> room = test::allocate_room(world.all(), {&input, 1});
        if (!room) return room.error();
        const Result<test::Tables> tables = test::run_tables(world.all(), input, room->counts[0]);
        if (!tables) return tables.error();
        test::Outcome outcome;
        if (Result<void> sent = test::run_dispatch(world.all(), input, *room, *tables, outcome); !sent) return sent;
        if (world.rank() == Rank{2}) return {};
        return test::run_combine(world.all(), input, *room, *tables, outcome);
      });
  CHECK_FALSE(outcomes[2]);
  const std::string proof = proof_among(outcomes);
  CAPTURE(proof);
  CHECK(support::contains(proof, "combine_normal: orphan wait: "));
  CHECK(support::contains(proof, "for barrier[1] from rank 2 of rank "));
  CHECK(support::contains(proof, "\n  cause: operator left out: rank 2 ended after "));
}
