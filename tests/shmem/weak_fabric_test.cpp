// Delayed visibility: what a missing fence costs really shows, and nothing is lost.

#include <doctest/doctest.h>

#include "tests/shmem/fabric_harness.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

constexpr std::array kWeak{Body::weak_threads, Body::weak_segments};
constexpr int kRounds = 400;

/// Which core writes.
struct Writer {
  std::int32_t rank = 0;
  std::int32_t core = 0;
};

/// Rounds of put and signal without order; which of them the other rank reads stale after it saw the signal.
std::vector<bool> stale_rounds(Body body, std::uint64_t seed, bool fenced, Writer by = {}) {
  Job job(body, {.cores = 2, .seed = seed});
  const std::int32_t other = 1 - by.rank;
  std::vector<bool> stale;
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const Hand writer = job.hand(by.rank, by.core);
    writer.put(other, job.plan().area(), round);
    if (fenced) writer.fence(other);
    writer.set(other, writer.word(by.rank), round);
    const Hand reader = job.hand(other);
    reader.wait(other, reader.word(by.rank), Compare::at_least, round);
    stale.push_back(reader.get<std::uint64_t>(other, job.plan().area()) != round);
    writer.quiet();
  }
  return stale;
}

std::size_t many(const std::vector<bool>& flags) {
  return static_cast<std::size_t>(std::count(flags.begin(), flags.end(), true));
}

}  // namespace

TEST_CASE("weak: without a fence stale reads happen, the same ones for the same seed") {
  for (const Body body : kWeak) {
    const auto stale = stale_rounds(body, 1, false);
    CHECK(many(stale) > kRounds / 2);
    CHECK(many(stale) < kRounds);
    CHECK(stale == stale_rounds(body, 1, false));
    CHECK(stale != stale_rounds(body, 2, false));
  }
  CHECK(many(stale_rounds(Body::threads, 1, false)) == 0);
}

TEST_CASE("weak: ranks, cores and seeds draw for themselves") {
  const auto first = stale_rounds(Body::weak_threads, 7, false);
  CHECK(first != stale_rounds(Body::weak_threads, 7, false, {.rank = 0, .core = 1}));
  CHECK(first != stale_rounds(Body::weak_threads, 7, false, {.rank = 1, .core = 0}));
  CHECK(stale_rounds(Body::weak_threads, 8, false) !=
        stale_rounds(Body::weak_threads, 7, false, {.rank = 1, .core = 0}));
}

TEST_CASE("weak: with a fence no read is stale") {
  for (const Body body : kWeak) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) CHECK(many(stale_rounds(body, seed, true)) == 0);
  }
}

TEST_CASE("weak: a fence orders towards its own rank only") {
  for (const Body body : kWeak) {
    Job job(body, {.ranks = 3});
    const Hand writer = job.hand(0);
    int late = 0;
    for (std::uint64_t round = 1; round <= 100; ++round) {
      writer.put(1, job.plan().area(), round);
      writer.put(2, job.plan().area(), round);
      writer.fence(2);
      CHECK(job.hand(2).get<std::uint64_t>(2, job.plan().area()) == round);
      late += job.hand(1).get<std::uint64_t>(1, job.plan().area()) != round;
      writer.quiet();
      CHECK(job.hand(1).get<std::uint64_t>(1, job.plan().area()) == round);
    }
    CHECK(late > 0);
  }
}

TEST_CASE("weak: puts to one place keep their order whatever overlaps, and each one arrives") {
  const std::uint64_t seed = test_seed();
  INFO("seed " << seed);
  for (const Body body : kWeak) {
    Job job(body, {.seed = seed});
    std::mt19937_64 random(seed);
    const Hand writer = job.hand(0);
    constexpr std::size_t kBytes = 64;
    std::array<std::byte, kBytes> expected{};
    int wrong = 0;
    for (int round = 0; round < 500; ++round) {
      for (int i = 0; i < 8; ++i) {
        const std::size_t at = random() % kBytes;
        std::vector<std::byte> data(1 + random() % (kBytes - at), static_cast<std::byte>(random()));
        std::copy(data.begin(), data.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
        if (random() % 4 == 0) {
          writer.fabric().put_signal(Rank{1}, job.plan().area(at), data, writer.word(0), SignalOp::set, 1,
                                     SourceSite::here());
        } else {
          writer.fabric().put(Rank{1}, job.plan().area(at), data, SourceSite::here());
        }
      }
      if (random() % 2 == 0) {
        writer.fence(1);
      } else {
        writer.quiet();
      }
      wrong += job.hand(1).get<std::array<std::byte, kBytes>>(1, job.plan().area()) != expected;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("weak: a put to the own rank is seen at once") {
  for (const Body body : kWeak) {
    Job job(body, {});
    for (std::uint64_t round = 1; round <= 50; ++round) {
      job.hand(0).put(0, job.plan().area(), round);
      CHECK(job.hand(0).get<std::uint64_t>(0, job.plan().area()) == round);
    }
  }
}

TEST_CASE(
    "weak: what is held arrives by a wait, a look that comes late, the end of an operator, or the end of the core") {
  for (const Body body : kWeak) {
    INFO(name_of(body));
    Job job(body, {});
    const Hand writer = job.hand(0);
    const auto put_rows = [&](std::uint64_t round) {
      for (std::uint64_t i = 0; i < 16; ++i) writer.put(1, job.plan().area(8 * i), round);
    };
    const auto arrived = [&](std::uint64_t round) {
      const auto rows = job.hand(1).get<std::array<std::uint64_t, 16>>(1, job.plan().area());
      return std::count(rows.begin(), rows.end(), round) == 16;
    };
    put_rows(1);
    CHECK(!arrived(1));
    const Slot slot = writer.word(1);
    const WaitSpec spec{.where = Rank{0}, .slots = {&slot, 1}, .value = 1, .deadline = Time{1}};
    CHECK(!writer.fabric().wait(spec, SourceSite::here()).has_value());
    CHECK(arrived(1));
    put_rows(2);
    CHECK(!arrived(2));
    CHECK(comes_true([&] {
      (void)writer.fabric().test(spec, SourceSite::here());
      return arrived(2);
    }));
    put_rows(3);
    CHECK(!arrived(3));
    writer.fabric().actor({.kind = ActorEvent::Kind::leave, .op = {}, .round = Round{}}, SourceSite::here());
    CHECK(arrived(3));
    put_rows(4);
    writer.fabric().actor({.kind = ActorEvent::Kind::stop, .op = {}, .round = Round{}}, SourceSite::here());
    CHECK(arrived(4));
    put_rows(5);
    CHECK(!arrived(5));
    job.seat(0).drop_fabrics();
    CHECK(arrived(5));
  }
}

TEST_CASE("weak: a writer that never fences and then waits lets its puts go, so that nobody waits for them for ever") {
  for (const Body body : kWeak) {
    Job job(body, {.ranks = 3});
    const std::string failures = job.run([](const Hand& hand) {
      const Offset flag = hand.plan().slots->offset_of(hand.word(0));
      if (hand.rank() == Rank{0}) {
        for (int i = 0; i < 8; ++i) hand.put(1, hand.plan().area(8), std::uint64_t{6});
        hand.wait(0, hand.word(1), Compare::at_least, 1);
      } else if (hand.rank() == Rank{1}) {
        hand.until_asleep(0, hand.word(1));
        hand.set(0, hand.word(1), 1);
      } else {
        require(hand.get<std::uint64_t>(2, flag) == 0, "a word nobody wrote");
      }
    });
    CHECK_MESSAGE(failures.empty(), failures);
    CHECK(job.hand(1).get<std::uint64_t>(1, job.plan().area(8)) == 6);
  }
}

TEST_CASE("weak: a deadline shorter than its patience stays the caller's") {
  for (const Body body : kWeak) {
    Job job(body, {});
    const Hand writer = job.hand(0);
    for (std::uint64_t i = 0; i < 8; ++i) writer.put(1, job.plan().area(8 * i), i);
    const Slot slot = writer.word(1);
    const WaitSpec spec{.where = Rank{0}, .slots = {&slot, 1}, .value = 3, .deadline = job.at(0).now() + Time{1000}};
    const auto result = writer.fabric().wait(spec, SourceSite{"w.cpp", 5});
    REQUIRE(!result.has_value());
    CHECK(result.error().code == Errc::deadline);
    CHECK(result.error().context.find("w.cpp:5") != std::string::npos);
  }
}
