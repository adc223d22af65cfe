#pragma once
// Exchanges between ranks that must come out the same whether the ranks are threads or processes, and however late a
// put may become visible. Every core of every rank runs the scenario; a broken promise is thrown.

#include <algorithm>

#include "tests/shmem/fabric_harness.hpp"

namespace shmoe::shmem::test {

using Scenario = void (*)(const Hand&);

struct NamedScenario {
  const char* name;
  std::int32_t ranks;
  std::int32_t cores;
  bool oversubscribed;
  bool moves_data;  // the others would not notice a put that is late
  Scenario run;
};

/// put, fence, signal: whoever saw the signal reads the new data.
inline void message_passing(const Hand& hand) {
  const Offset at = hand.plan().area();
  for (std::uint64_t round = 1; round <= 10'000; ++round) {
    const std::array<std::uint64_t, 3> data{round, ~round, round * 3};
    if (hand.rank() == Rank{0}) {
      hand.put(1, at, data);
      hand.fence(1);
      hand.set(1, hand.word(0), round);
      hand.wait(0, hand.word(1), Compare::at_least, round);
    } else {
      hand.wait(1, hand.word(0), Compare::at_least, round);
      const auto seen = hand.get<std::array<std::uint64_t, 3>>(1, at);
      require(seen == data, "round {} reads {} {} {}", round, seen[0], seen[1], seen[2]);
      hand.set(0, hand.word(1), round);
    }
  }
}

/// put to rank 1, quiet, signal to rank 2: rank 2 reads the new data in rank 1's memory.
inline void quiet_spans_destinations(const Hand& hand) {
  const Offset at = hand.plan().area();
  for (std::uint64_t round = 1; round <= 2000; ++round) {
    if (hand.rank() == Rank{0}) {
      hand.put(1, at, round);
      hand.quiet();
      hand.set(2, hand.word(0), round);
      hand.wait(0, hand.word(2), Compare::at_least, round);
    } else if (hand.rank() == Rank{2}) {
      hand.wait(2, hand.word(0), Compare::at_least, round);
      const auto seen = hand.get<std::uint64_t>(1, at);
      require(seen == round, "round {} reads {} from rank 1", round, seen);
      hand.set(0, hand.word(2), round);
    }
  }
}

/// The payload is there when its own signal is, without a fence.
inline void payload_before_its_signal(const Hand& hand) {
  const Offset at = hand.plan().area(64);
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    std::array<std::uint64_t, 9> data{};
    data.fill(round);
    if (hand.rank() == Rank{0}) {
      hand.put_signal(1, at, data, hand.word(0), SignalOp::set, round);
      hand.wait(0, hand.word(1), Compare::at_least, round);
    } else {
      hand.wait(1, hand.word(0), Compare::at_least, round);
      const auto seen = hand.get<std::array<std::uint64_t, 9>>(1, at);
      require(seen == data, "round {} reads {} .. {}", round, seen.front(), seen.back());
      hand.set(0, hand.word(1), round);
    }
  }
}

/// Adds of all cores of all ranks sum exactly, and everyone can watch the sum from afar.
inline void adds_sum(const Hand& hand) {
  constexpr std::uint64_t kAdds = 2000;
  const auto cores = static_cast<std::uint64_t>(hand.ranks() * hand.plan().options.cores);
  for (std::uint64_t i = 1; i <= kAdds; ++i) hand.add(0, hand.counter(), i);
  const std::uint64_t total = cores * kAdds * (kAdds + 1) / 2;
  hand.wait(0, hand.counter(), Compare::equal, total);
  hand.add(0, hand.counter(1), 1);
  hand.wait(0, hand.counter(1), Compare::at_least, cores);
  require(hand.get<std::uint64_t>(0, hand.plan().slots->offset_of(hand.counter())) == total, "the sum moved on");
}

inline void ping_pong(const Hand& hand) {
  const std::int32_t me = hand.rank().value();
  for (std::uint64_t round = 1; round <= 20'000; ++round) {
    if (me == 0) hand.set(1, hand.word(0), round);
    hand.wait(me, hand.word(1 - me), Compare::equal, round);
    if (me == 1) hand.set(0, hand.word(1), round);
  }
}

/// A token goes round more ranks than there are CPUs: almost every hop ends a sleep.
inline void ring(const Hand& hand) {
  const std::int32_t me = hand.rank().value();
  const std::int32_t before = (me + hand.ranks() - 1) % hand.ranks();
  const std::int32_t after = (me + 1) % hand.ranks();
  for (std::uint64_t round = 1; round <= 250; ++round) {
    if (me == 0) hand.set(after, hand.word(me), round);
    hand.wait(me, hand.word(before), Compare::at_least, round);
    if (me != 0) hand.set(after, hand.word(me), round);
  }
}

/// Rank 1 sleeps, rank 0 sees it sleep and signals. A wake that never came would show as a look 100 ms later.
inline void sleeper_is_woken(const Hand& hand) {
  constexpr std::uint64_t kSleeps = 40;
  std::vector<std::int64_t> delays;
  for (std::uint64_t round = 1; round <= kSleeps; ++round) {
    if (hand.rank() == Rank{1}) {
      hand.wait(1, hand.word(0), Compare::at_least, round);
      hand.set(0, hand.word(1), static_cast<std::uint64_t>(hand.fabric().now().count()));
      hand.wait(1, hand.word(0, 1), Compare::at_least, round);
      continue;
    }
    hand.until_asleep(1, hand.word(0));
    const auto before = hand.get<std::uint64_t>(0, hand.plan().slots->offset_of(hand.word(1)));
    const Time sent = hand.fabric().now();
    hand.set(1, hand.word(0), round);
    const Arrival woken = hand.wait(0, hand.word(1), Compare::not_equal, before);
    delays.push_back(static_cast<std::int64_t>(woken.value) - sent.count());
    hand.set(1, hand.word(0, 1), round);
  }
  if (hand.rank() == Rank{1}) return;
  std::nth_element(delays.begin(), delays.begin() + kSleeps / 2, delays.end());
  require(delays[kSleeps / 2] < 60'000'000, "half of the sleepers woke {} ns after their signal", delays[kSleeps / 2]);
}

/// All others sleep on one slot of rank 0; one signal wakes them all.
inline void one_signal_wakes_all(const Hand& hand) {
  const auto others = static_cast<std::uint32_t>(hand.ranks() - 1);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    if (hand.rank() == Rank{0}) {
      hand.until_asleep(0, hand.word(0), others);
      hand.set(0, hand.word(0), round);
      hand.wait(0, hand.counter(), Compare::equal, round * others);
    } else {
      hand.wait(0, hand.word(0), Compare::at_least, round);
      hand.add(0, hand.counter(), 1);
      hand.wait(0, hand.counter(), Compare::at_least, round * others);
    }
  }
}

/// Rank 1 sleeps on any of n slots, below and above what the kernel takes at once; each place can end it.
inline void any_of_many(const Hand& hand) {
  std::uint64_t round = 0;
  for (const std::uint32_t n : {2U, 3U, 64U, 127U, 128U, 129U, 200U}) {
    for (const std::uint32_t hit : {0U, n / 2, n - 1}) {
      ++round;
      if (hand.rank() == Rank{0}) {
        hand.until_asleep(1, hand.many(0));
        hand.set(1, hand.many(hit), round);
        hand.wait(0, hand.word(1), Compare::at_least, round);
        continue;
      }
      std::vector<Slot> slots;
      for (std::uint32_t i = 0; i < n; ++i) slots.push_back(hand.many(i));
      std::vector<std::uint64_t> observed(n);
      const Arrival arrival =
          hand.wait({.where = Rank{1}, .slots = slots, .match = Match::any, .value = round, .observed = observed});
      require(arrival.index == hit && arrival.value == round && observed[hit] == round, "of {} slots {} came, not {}",
              n, arrival.index, hit);
      hand.set(0, hand.word(1), round);
    }
  }
}

/// Asleep on a sum, and on all: the last contribution ends it, the earlier ones do not.
inline void sum_and_all_sleep(const Hand& hand) {
  std::vector<Slot> slots;
  for (std::uint32_t i = 0; i < 4; ++i) slots.push_back(hand.word(0, i));
  std::vector<std::uint64_t> observed(4);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    if (hand.rank() == Rank{0}) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t turn = round % 2 == 0 ? 3 - i : i;
        hand.until_asleep(1, round % 2 == 0 ? slots[0] : slots[turn]);
        hand.set(1, slots[turn], round);
      }
      hand.wait(0, hand.word(1), Compare::at_least, round);
      continue;
    }
    const bool sum = round % 2 == 0;
    const Arrival arrival = hand.wait({.where = Rank{1},
                                       .slots = slots,
                                       .match = sum ? Match::sum : Match::all,
                                       .compare = Compare::equal,
                                       .value = sum ? 4 * round : round,
                                       .upper = 4 * round,
                                       .observed = observed});
    require(arrival.value == (sum ? 4 * round : round), "round {} ends with {}", round, arrival.value);
    for (const std::uint64_t seen : observed) require(seen == round, "round {} observed {}", round, seen);
    hand.set(0, hand.word(1), round);
  }
}

/// Rows of awkward lengths from everyone to everyone, each beside its neighbour.
inline void rows_to_everyone(const Hand& hand) {
  constexpr std::array<std::size_t, 7> kRows{1, 2, 6, 18, 34, 4100, 7};
  const auto byte_of = [](std::int32_t src, std::int32_t dst, std::size_t row, std::uint64_t round) {
    return static_cast<std::byte>(static_cast<std::uint64_t>(src * 31 + dst * 7) + row * 3 + round);
  };
  constexpr std::uint64_t kPerSource = 4168;
  for (std::uint64_t round = 1; round <= 30; ++round) {
    for (std::int32_t dst = 0; dst < hand.ranks(); ++dst) {
      std::uint64_t at = static_cast<std::uint64_t>(hand.rank().value()) * kPerSource;
      for (std::size_t row = 0; row < kRows.size(); ++row) {
        const std::vector<std::byte> data(kRows[row], byte_of(hand.rank().value(), dst, row, round));
        hand.fabric().put(Rank{dst}, hand.plan().area(at), data, SourceSite::here());
        at += kRows[row];
      }
      hand.fence(dst);
      hand.set(dst, hand.word(hand.rank().value()), 2 * round);
    }
    for (std::int32_t src = 0; src < hand.ranks(); ++src) {
      hand.wait(hand.rank().value(), hand.word(src), Compare::at_least, 2 * round);
      std::vector<std::byte> seen(kPerSource);
      hand.fabric().get(hand.rank(), hand.plan().area(static_cast<std::uint64_t>(src) * kPerSource), seen,
                        SourceSite::here());
      std::size_t at = 0;
      for (std::size_t row = 0; row < kRows.size(); ++row) {
        for (std::size_t i = 0; i < kRows[row]; ++i, ++at) {
          require(seen[at] == byte_of(src, hand.rank().value(), row, round), "round {} row {} byte {} from {}", round,
                  row, i, src);
        }
      }
    }
    for (std::int32_t dst = 0; dst < hand.ranks(); ++dst) hand.set(dst, hand.word(hand.rank().value(), 1), round);
    for (std::int32_t src = 0; src < hand.ranks(); ++src) {
      hand.wait(hand.rank().value(), hand.word(src, 1), Compare::at_least, round);
    }
  }
}

inline constexpr std::array<NamedScenario, 12> kScenarios{{
    {"message passing with a fence, 10000 rounds", 2, 1, false, true, message_passing},
    {"quiet orders across destinations", 3, 1, false, true, quiet_spans_destinations},
    {"a payload before its own signal", 2, 1, false, true, payload_before_its_signal},
    {"adds of several writers sum exactly", 3, 2, false, true, adds_sum},
    {"20000 rounds of ping-pong", 2, 1, false, false, ping_pong},
    {"20000 rounds of ping-pong without spinning", 2, 1, true, false, ping_pong},
    {"a ring of more ranks than CPUs", 8, 1, true, false, ring},
    {"a sleeper is woken by its signal", 2, 1, true, false, sleeper_is_woken},
    {"one signal wakes all sleepers", 7, 1, true, false, one_signal_wakes_all},
    {"any of 2 to 200 slots", 2, 1, false, true, any_of_many},
    {"asleep on a sum and on all", 2, 1, false, false, sum_and_all_sleep},
    {"rows of awkward lengths to everyone", 3, 1, false, true, rows_to_everyone},
}};

}  // namespace shmoe::shmem::test
