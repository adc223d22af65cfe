// What ends a wait and what it returns, over every body.

#include <doctest/doctest.h>

#include <limits>

#include <linux/futex.h>
#include <sys/syscall.h>

#include "shmem/fence.hpp"
#include "tests/shmem/over_bodies.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

bool compares(Compare compare, std::uint64_t seen, std::uint64_t value) {
  return compare == Compare::equal ? seen == value : compare == Compare::at_least ? seen >= value : seen != value;
}

}  // namespace

TEST_CASE("wait: all, any and sum with each comparison, on own and on remote slots, agree with the words") {
  const std::uint64_t seed = test_seed();
  over_bodies({.ranks = 3}, [&](Job& job) {
    std::mt19937_64 random(seed);
    INFO("seed " << seed);
    int wrong = 0;
    for (int round = 0; round < 300; ++round) {
      const auto owner = static_cast<std::int32_t>(random() % 2);
      const Hand waiter = job.hand(0);
      std::vector<Slot> slots;
      std::vector<std::uint64_t> words;
      for (std::uint32_t i = 0; i < 1 + random() % 4; ++i) {
        slots.push_back(waiter.word(2, i));
        words.push_back(random() % 3);
        job.hand(2).set(owner, slots.back(), words.back());
      }
      const std::uint64_t value = random() % 3;
      const std::uint64_t upper = value + random() % 3;
      for (const Compare compare : {Compare::equal, Compare::at_least, Compare::not_equal}) {
        std::size_t satisfied = 0;
        std::size_t first = words.size();
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < words.size(); ++i) {
          if (compares(compare, words[i], value)) {
            ++satisfied;
            first = std::min(first, i);
          }
          sum += words[i];
        }
        std::vector<std::uint64_t> observed(words.size(), 99);
        WaitSpec spec{.where = Rank{owner}, .slots = slots, .compare = compare, .value = value, .observed = observed};
        const auto ask = [&](Match match, bool expected) -> std::optional<Arrival> {
          spec.match = match;
          spec.upper = match == Match::sum ? upper : std::numeric_limits<std::uint64_t>::max();
          const auto seen = waiter.fabric().test(spec, SourceSite::here());
          wrong += seen.has_value() != expected;
          if (!seen || !expected) return std::nullopt;
          const auto waited = waiter.fabric().wait(spec, SourceSite::here());
          wrong += !waited || waited->index != seen->index || waited->value != seen->value;
          return seen;
        };
        if (const auto all = ask(Match::all, satisfied == words.size())) {
          wrong += observed != words || all->value != words.back();
        }
        if (const auto any = ask(Match::any, satisfied > 0)) {
          wrong += any->index != first || any->value != words[first] || observed[first] != words[first];
        }
        if (const auto total = ask(Match::sum, sum >= value && sum <= upper)) {
          wrong += total->value != sum || observed != words;
        }
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("wait: a deadline ends it, and the text names rank, core, operator, round, place, slot, and both values") {
  over_bodies({.cores = 2}, [](Job& job) {
    job.at(1, 1).actor({.kind = ActorEvent::Kind::enter, .op = "notify", .round = Round{7}}, SourceSite::here());
    job.hand(0).set(1, job.hand(1).word(0), 0x100);
    const std::array slots{job.hand(1).word(0), job.hand(1).word(0, 3)};
    const WaitSpec spec{.where = Rank{1}, .slots = slots, .value = 0x100, .deadline = job.at(1, 1).now() + Time{1}};
    const auto result = job.at(1, 1).wait(spec, SourceSite{"kernel.cpp", 321});
    REQUIRE(!result.has_value());
    CHECK(result.error().code == Errc::deadline);
    const std::string& text = result.error().context;
    CAPTURE(text);
    CHECK(has(text, "rank 1 core 1 in notify round 7 waited "));
    CHECK(has(text, "kernel.cpp:321"));
    CHECK(has(text, "word from rank 0 event 3 (the first of 2 slots that is still missing) in rank 1's memory"));
    CHECK(has(text, "to be >= 0x100, sees 0x0"));
    CHECK(std::string(result.error().site.file) == "kernel.cpp");
  });
}

TEST_CASE("wait: a word past the one wanted value is told, with the rank that wrote it") {
  over_bodies({}, [](Job& job) {
    const Slot slot = job.hand(1).word(0);
    job.hand(0).set(1, slot, 9);
    const WaitSpec spec{
        .where = Rank{1}, .slots = {&slot, 1}, .compare = Compare::equal, .value = 8, .deadline = Time{1}};
    const auto result = job.at(1).wait(spec, SourceSite::here());
    REQUIRE(!result.has_value());
    CHECK(has(result.error().context, "to be == 0x8, sees 0x9, which is past it"));
    CHECK(result.error().where == Rank{0});
  });
}

TEST_CASE("wait: the text of a sum tells the sum and the range it should lie in") {
  over_bodies({}, [](Job& job) {
    const std::array slots{job.hand(1).counter(2), job.hand(1).counter(3)};
    job.hand(0).add(1, slots[0], 1);
    job.hand(0).add(1, slots[1], 3);
    WaitSpec spec{.where = Rank{1}, .slots = slots, .match = Match::sum, .value = 5, .deadline = Time{1}};
    const auto open = job.at(1).wait(spec, SourceSite::here());
    REQUIRE(!open.has_value());
    CHECK(has(open.error().context,
              "for the sum of 2 slots with counter event 2 in rank 1's memory to be >= 0x5, sees 0x4"));
    spec.upper = 7;
    const auto closed = job.at(1).wait(spec, SourceSite::here());
    REQUIRE(!closed.has_value());
    CHECK(has(closed.error().context, "to be in [0x5, 0x7], sees 0x4"));
  });
}

TEST_CASE("wait: a deadline that has passed still takes a value that is there") {
  over_bodies({}, [](Job& job) {
    const Slot slot = job.hand(1).word(0);
    WaitSpec spec{.where = Rank{1}, .slots = {&slot, 1}, .value = 1, .deadline = Time{1}};
    CHECK(!job.at(1).wait(spec, SourceSite::here()).has_value());
    job.hand(0).set(1, slot, 1);
    CHECK(job.at(1).wait(spec, SourceSite::here()).has_value());
  });
}

TEST_CASE("wait: the limit of the job holds for waits that bring none, and one without end is no trouble") {
  over_bodies({.wait_limit = Time{1000}}, [](Job& job) {
    const Slot slot = job.hand(1).word(0);
    const WaitSpec spec{.where = Rank{1}, .slots = {&slot, 1}, .compare = Compare::not_equal};
    const auto result = job.at(1).wait(spec, SourceSite::here());
    REQUIRE(!result.has_value());
    CHECK(result.error().code == Errc::deadline);
    CHECK(has(result.error().context, "no operator"));
    CHECK(has(result.error().context, "to be != 0x0, sees 0x0"));
  });
  over_bodies({.wait_limit = Time::max()}, [](Job& job) {
    const std::string failures = job.run([](const Hand& hand) {
      const Slot slot = hand.word(0);
      if (hand.rank() == Rank{0}) {
        hand.until_asleep(1, slot);
        hand.set(1, slot, 1);
        return;
      }
      const WaitSpec spec{.where = Rank{1}, .slots = {&slot, 1}, .value = 1};
      const auto result = hand.fabric().wait(spec, SourceSite::here());
      require(result.has_value(), "{}", result.has_value() ? "" : to_string(result.error()));
    });
    CHECK_MESSAGE(failures.empty(), failures);
  });
}

TEST_CASE("wait: what the overseer says ends a sleeping wait; it is told what the wait is") {
  std::atomic<bool> lost{false};
  std::atomic<int> wrong{0};
  std::atomic<int> asked{0};
  const Overseer overseer = [&](const SleepingWait& wait) -> std::optional<Error> {
    ++asked;
    wrong += wait.op != "combine" || wait.round != Round{3} || wait.core != Core{0} || wait.spec.value != 9 ||
             wait.seen != 4 || wait.waited <= Time{0} || std::string_view(wait.site.file) != "fabric_wait_test.cpp";
    if (!lost) return std::nullopt;
    return Error{.code = Errc::peer_lost, .context = "rank 0 is gone", .where = Rank{0}};
  };
  over_bodies({.overseer = overseer}, [&](Job& job) {
    lost = false;
    asked = 0;
    Result<Arrival> result = Arrival{};
    job.hand(0).set(1, job.hand(1).word(0), 4);
    std::thread waiter([&] {
      const Slot slot = job.hand(1).word(0);
      job.at(1).actor({.kind = ActorEvent::Kind::enter, .op = "combine", .round = Round{3}}, SourceSite::here());
      result = job.at(1).wait({.where = Rank{1}, .slots = {&slot, 1}, .value = 9}, SourceSite::here());
    });
    CHECK(comes_true([&] { return asked > 0; }));
    lost = true;
    waiter.join();
    REQUIRE(!result.has_value());
    CHECK(result.error().code == Errc::peer_lost);
    CHECK(result.error().where == Rank{0});
    CHECK(job.seat(1).record().epoch.load() == 2);
    CHECK(job.hand(1).sleepers(1, job.hand(1).word(0)) == 0);
  });
  CHECK(wrong == 0);
}

TEST_CASE("test: looks once, and a satisfied one makes the data readable") {
  over_bodies({}, [](Job& job) {
    const std::string failures = job.run([](const Hand& hand) {
      const Slot slot = hand.word(0);
      for (std::uint64_t round = 1; round <= 1000; ++round) {
        if (hand.rank() == Rank{0}) {
          hand.put(1, hand.plan().area(), round);
          hand.fence(1);
          hand.set(1, slot, round);
          hand.wait(0, hand.word(1), Compare::equal, round);
          continue;
        }
        const WaitSpec spec{.where = Rank{1}, .slots = {&slot, 1}, .compare = Compare::equal, .value = round};
        require(comes_true([&] { return hand.fabric().test(spec, SourceSite::here()).has_value(); }), "no signal");
        require(hand.get<std::uint64_t>(1, hand.plan().area()) == round, "old data in round {}", round);
        hand.set(0, hand.word(1), round);
      }
    });
    CHECK_MESSAGE(failures.empty(), failures);
    CHECK(job.seat(1).record().epoch.load() == 0);
  });
}

TEST_CASE("wait: a store by a peer that rings no bell is found all the same") {
  // A store that is no signal wakes nobody; the next look at the word finds it.
  over_bodies({}, [](Job& job) {
    Result<Arrival> result = Arrival{};
    std::thread waiter([&] {
      const Slot slot = job.hand(1).word(0);
      result = job.at(1).wait({.where = Rank{1}, .slots = {&slot, 1}, .value = 5}, SourceSite::here());
    });
    job.hand(0).until_asleep(1, job.hand(1).word(0));
    std::byte* word = job.seat(0).peers().mem[1] + job.plan().slots->offset_of(job.hand(1).word(0)).value();
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word)).store(5);
    waiter.join();
    CHECK((result.has_value() && result->value == 5));
  });
}

TEST_CASE("bell: whoever follows its rule without a time limit is always woken") {
  // The waiter's half is written out here, so that no look at the clock hides a wake that did not come.
  for (const Sharing sharing : {Sharing::threads, Sharing::processes}) {
    alignas(32) std::array<std::byte, 64> slots{};
    const auto wait_for = [&](std::size_t index, std::uint64_t value) {
      std::byte* slot = slots.data() + 32 * index;
      std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(slot));
      std::atomic_ref<std::uint32_t> sequence(*reinterpret_cast<std::uint32_t*>(slot + 8));
      std::atomic_ref<std::uint32_t> sleepers(*reinterpret_cast<std::uint32_t*>(slot + 12));
      while (word.load() != value) {
        sleepers.fetch_add(1);
        const std::uint32_t heard = sequence.load();
        if (word.load() != value) {
          const int op = FUTEX_WAIT | (sharing == Sharing::threads ? FUTEX_PRIVATE_FLAG : 0);
          ::syscall(SYS_futex, slot + 8, op, heard, nullptr, nullptr, 0);
        }
        sleepers.fetch_sub(1);
      }
    };
    constexpr std::uint64_t kRounds = 20'000;
    std::thread other([&] {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        wait_for(0, round);
        store_word(slots.data() + 32, SignalOp::set, round);
        full_fence();
        ring(slots.data() + 32, sharing);
      }
    });
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      store_and_ring(slots.data(), SignalOp::add, 1, sharing);
      wait_for(1, round);
    }
    other.join();
    for (const std::size_t index : {0U, 1U}) {
      const std::byte* slot = slots.data() + 32 * index;
      CHECK(*reinterpret_cast<const std::uint64_t*>(slot) == kRounds);
      CHECK(*reinterpret_cast<const std::uint32_t*>(slot + 12) == 0);  // nobody sleeps
    }
  }
}
