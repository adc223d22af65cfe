// Puts, gets, views and signals of one thread that plays all ranks, over every body; and contracts.

#include <doctest/doctest.h>

#include <limits>

#include "tests/shmem/over_bodies.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

constexpr std::byte kCanary{0xA5};
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr SourceSite kSite{"here.cpp", 7};

/// Runs `check` over every body, with views and without.
template <class Check>
void over_bodies_and_views(const Options& base, Check check) {
  for (const Body body : kBodies) {
    for (const bool views : {true, false}) {
      INFO(name_of(body), std::string(views ? ", views" : ", no views"));
      Options options = base;
      options.views = views;
      Job job(body, options);
      check(job);
    }
  }
}

std::vector<std::byte> pattern(std::size_t size, unsigned salt) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i * 7 + salt);
  return data;
}

std::vector<std::byte> whole(Job& job, std::int32_t rank, Offset at, std::size_t size) {
  std::vector<std::byte> seen(size);
  job.at(rank).get(Rank{rank}, at, seen, kSite);
  return seen;
}

}  // namespace

TEST_CASE("data: a put writes its bytes and none beside, at any size and offset, to self and to a peer") {
  constexpr std::size_t kGuard = 64;
  over_bodies_and_views({}, [&](Job& job) {
    int wrong = 0;
    for (const std::size_t size : {0U, 1U, 2U, 6U, 18U, 34U, 4100U}) {
      for (const std::uint64_t shift : {0U, 1U, 3U, 7U, 16U, 31U}) {
        for (const std::int32_t dst : {0, 1}) {
          const std::vector<std::byte> clean(size + 2 * kGuard, kCanary);
          const Offset at = job.plan().area(shift);
          job.at(dst).put(Rank{dst}, at, clean, kSite);
          const auto data = pattern(size, static_cast<unsigned>(shift));
          job.at(0).put(Rank{dst}, at + Bytes{kGuard}, data, kSite);
          job.at(0).quiet(kSite);
          std::vector<std::byte> expected = clean;
          std::copy(data.begin(), data.end(), expected.begin() + kGuard);
          wrong += whole(job, dst, at, expected.size()) != expected;
          // A get writes its bytes and none beside.
          std::vector<std::byte> into(size + 2 * kGuard, std::byte{0x11});
          job.at(1).get(Rank{dst}, at + Bytes{kGuard}, std::span(into).subspan(kGuard, size), kSite);
          wrong += !std::equal(data.begin(), data.end(), into.begin() + kGuard);
          wrong += std::count(into.begin(), into.begin() + kGuard, std::byte{0x11}) != kGuard;
          wrong += std::count(into.end() - kGuard, into.end(), std::byte{0x11}) != kGuard;
        }
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("data: views show and take a peer's memory, or none is offered and put and get serve") {
  for (const Body body : kBodies) {
    for (const bool views : {true, false}) {
      INFO(name_of(body), std::string(views ? ", views" : ", no views"));
      Job job(body, {.views = views});
      const auto data = pattern(34, 5);
      for (const std::int32_t dst : {0, 1}) {
        CAPTURE(dst);
        const Offset at = job.plan().area(2);
        const auto place = job.at(0).open_write(Rank{dst}, at, Bytes{34}, kSite);
        const bool offered = views && (dst == 0 || !is_weak(body));
        REQUIRE(place.size() == (offered ? 34 : 0));
        if (offered) {
          std::copy(data.begin(), data.end(), place.begin());
          job.at(0).close_write(Rank{dst}, at, Bytes{34}, kSite);
        } else {
          job.at(0).put(Rank{dst}, at, data, kSite);
        }
        job.at(0).quiet(kSite);
        CHECK(whole(job, dst, at, 34) == data);
        const auto seen = job.at(1 - dst).open_read(Rank{dst}, at, Bytes{34}, kSite);
        REQUIRE(seen.size() == (views ? 34 : 0));
        CHECK((!views || std::equal(seen.begin(), seen.end(), data.begin())));
        if (views) job.at(1 - dst).close_read(Rank{dst}, at, Bytes{34}, kSite);
      }
    }
  }
}

TEST_CASE("data: the last bytes of a block are usable and the next one is not") {
  over_bodies_and_views({}, [](Job& job) {
    const std::uint64_t end = job.plan().map->size.value();
    const auto data = pattern(6, 9);
    job.at(0).put(Rank{1}, Offset{end - 6}, data, kSite);
    job.at(0).put(Rank{1}, Offset{end}, {}, kSite);
    job.at(0).quiet(kSite);
    CHECK(whole(job, 1, Offset{end - 6}, 6) == data);
    CHECK_THROWS_WITH_AS(job.at(0).put(Rank{1}, Offset{end - 5}, data, kSite), doctest::Contains(", +6) of rank 1 at "),
                         ContractViolation);
    CHECK_THROWS_WITH_AS(job.at(0).put(Rank{1}, Offset{end + 1}, {}, kSite), doctest::Contains(", +0) of rank 1 at "),
                         ContractViolation);
  });
}

TEST_CASE("data: two puts to one place keep their order, also when the second brings a signal") {
  over_bodies_and_views({}, [](Job& job) {
    const Hand writer = job.hand(0);
    int wrong = 0;
    for (std::uint64_t round = 1; round <= 200; ++round) {
      writer.put(1, job.plan().area(), 2 * round);
      writer.put(1, job.plan().area(), 2 * round + 1);
      writer.fence(1);
      wrong += job.hand(1).get<std::uint64_t>(1, job.plan().area()) != 2 * round + 1;
      writer.put(1, job.plan().area(), ~round);
      writer.put_signal(1, job.plan().area(4), static_cast<std::uint32_t>(round), writer.word(0), SignalOp::set, round);
      writer.quiet();
      wrong += job.hand(1).get<std::uint32_t>(1, job.plan().area(4)) != static_cast<std::uint32_t>(round);
      wrong += job.hand(1).get<std::uint32_t>(1, job.plan().area()) != static_cast<std::uint32_t>(~round);
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("signal: set replaces, add accumulates and wraps, and only that word of the slot changes") {
  over_bodies_and_views({}, [](Job& job) {
    const Hand writer = job.hand(0);
    const Hand owner = job.hand(1);
    const Offset word = job.plan().slots->offset_of(owner.word(0, 1));
    for (const std::uint64_t value : {std::uint64_t{5}, kMax, std::uint64_t{1} << 32, std::uint64_t{0}}) {
      writer.set(1, owner.word(0, 1), value);
      const auto slot = owner.get<std::array<std::uint64_t, 4>>(1, word);
      CHECK(slot == std::array<std::uint64_t, 4>{value, 0, 0, 0});
    }
    const Offset counter = job.plan().slots->offset_of(owner.counter());
    writer.add(1, owner.counter(), kMax);
    owner.add(1, owner.counter(), 3);
    CHECK(owner.get<std::uint64_t>(1, counter) == 2);
    const auto neighbours = owner.get<std::array<std::uint64_t, 8>>(1, counter + Bytes{8});
    CHECK(std::all_of(neighbours.begin(), neighbours.end(), [](std::uint64_t w) { return w == 0; }));
  });
}

TEST_CASE("contract: a rank that does not exist is named with the size and the caller's place") {
  over_bodies_and_views({}, [](Job& job) {
    std::array<std::byte, 8> data{};
    const Slot slot = job.hand(0).word(0);
    const Offset at = job.plan().area();
    Fabric& fabric = job.at(0);
    for (const std::int32_t bad : {-1, 2, 1 << 30, std::numeric_limits<std::int32_t>::min()}) {
      const Rank rank{bad};
      const WaitSpec spec{.where = rank, .slots = {&slot, 1}, .value = 1};
      const std::string named = fmt::format("rank {} of 2", bad);
      for (const std::string& text : {
               violation([&] { fabric.put(rank, at, data, kSite); }),
               violation([&] { fabric.get(rank, at, data, kSite); }),
               violation([&] { (void)fabric.open_read(rank, at, Bytes{8}, kSite); }),
               violation([&] { (void)fabric.open_write(rank, at, Bytes{8}, kSite); }),
               violation([&] { fabric.signal(rank, slot, SignalOp::set, 1, kSite); }),
               violation([&] { fabric.put_signal(rank, at, data, slot, SignalOp::set, 1, kSite); }),
               violation([&] { fabric.fence(rank, kSite); }),
               violation([&] { (void)fabric.wait(spec, kSite); }),
               violation([&] { (void)fabric.test(spec, kSite); }),
               violation([&] { fabric.touch(Access::read, rank, at, Bytes{8}, kSite); }),
           }) {
        CAPTURE(text);
        CHECK(has(text, named.c_str()));
        CHECK(has(text, "here.cpp:7"));
      }
    }
    fabric.quiet(kSite);
  });
}

TEST_CASE("contract: a range outside the block is refused where it is used, also where sums would wrap") {
  over_bodies_and_views({}, [](Job& job) {
    std::array<std::byte, 8> data{};
    Fabric& fabric = job.at(0);
    const std::uint64_t end = job.plan().map->size.value();
    for (const std::uint64_t at : {end - 7, end, end + 1, kMax - 8, kMax - 7, kMax - 4, kMax}) {
      CAPTURE(at);
      CHECK(has(violation([&] { fabric.put(Rank{1}, Offset{at}, data, kSite); }), "here.cpp:7"));
      CHECK(has(violation([&] { fabric.get(Rank{1}, Offset{at}, data, kSite); }), "here.cpp:7"));
      CHECK(has(violation([&] {
                  fabric.put_signal(Rank{1}, Offset{at}, data, job.hand(0).word(0), SignalOp::set, 1, kSite);
                }),
                "here.cpp:7"));
    }
    for (const std::uint64_t size : {end + 1, kMax, kMax - 4096}) {
      CHECK(has(violation([&] { (void)fabric.open_read(Rank{1}, Offset{4096}, Bytes{size}, kSite); }), "here.cpp:7"));
      CHECK(has(violation([&] { (void)fabric.open_write(Rank{1}, Offset{4096}, Bytes{size}, kSite); }), "here.cpp:7"));
      CHECK(has(violation([&] { fabric.touch(Access::write, Rank{0}, Offset{4096}, Bytes{size}, kSite); }),
                "here.cpp:7"));
    }
    fabric.quiet(kSite);
    CHECK(job.hand(1).get<std::uint64_t>(1, job.plan().slots->offset_of(job.hand(0).word(0))) == 0);
  });
}

TEST_CASE("contract: strict mode refuses undeclared writers and the other kind of signal; without it both pass") {
  for (const bool strict : {true, false}) {
    over_bodies_and_views({.ranks = 3, .strict = strict}, [&](Job& job) {
      Fabric& fabric = job.at(0);
      const Hand hand = job.hand(0);
      const Slot own = job.plan().slots->sync_all().at(0, Rank{0});
      const std::array texts{
          violation([&] { fabric.signal(Rank{1}, hand.word(2), SignalOp::set, 1, kSite); }),
          violation([&] { fabric.signal(Rank{1}, own, SignalOp::add, 1, kSite); }),
          violation([&] { fabric.signal(Rank{1}, hand.word(0), SignalOp::add, 1, kSite); }),
          violation([&] { fabric.signal(Rank{1}, hand.counter(), SignalOp::set, 1, kSite); }),
      };
      if (!strict) {
        for (const std::string& text : texts) CHECK(text.empty());
        return;
      }
      CHECK(has(texts[0], "rank 0 signals word from rank 2 event 0 of rank 1 at here.cpp:7"));
      CHECK(has(texts[1], "rank 0 signals sync_all of rank 1"));
      CHECK(has(texts[2], "declared for set and is signalled with add at here.cpp:7"));
      CHECK(has(texts[3], "declared for add and is signalled with set at here.cpp:7"));
      fabric.signal(Rank{0}, own, SignalOp::add, 1, kSite);
      fabric.signal(Rank{2}, hand.word(0), SignalOp::set, 1, kSite);
    });
  }
}

TEST_CASE("contract: strict mode refuses words that a slot cannot hold, on both sides; without it they pass") {
  for (const bool strict : {true, false}) {
    over_bodies_and_views({.strict = strict}, [&](Job& job) {
      Fabric& fabric = job.at(0);
      const std::uint64_t wide = std::uint64_t{1} << 32;
      const Slot own = job.plan().narrow.at(0, Rank{1});
      const Slot peers = job.plan().narrow.at(0, Rank{0});
      const WaitSpec wait{.where = Rank{0}, .slots = {&own, 1}, .compare = Compare::equal, .value = wide};
      const std::array texts{
          violation([&] { fabric.signal(Rank{1}, peers, SignalOp::set, wide, kSite); }),
          violation([&] { (void)fabric.test(wait, kSite); }),
          strict ? violation([&] { (void)fabric.wait(wait, kSite); }) : "",
      };
      if (!strict) {
        for (const std::string& text : texts) CHECK(text.empty());
        return;
      }
      CHECK(
          has(texts[0], "rank 0 signals narrow from rank 0 of rank 1 at here.cpp:7 with 0x100000000: its words are 4"));
      const char* refused =
          "a wait at here.cpp:7 for narrow from rank 1 of rank 0 compares with 0x100000000: its words are 4 bytes wide";
      CHECK(has(texts[1], refused));
      CHECK(has(texts[2], refused));
      fabric.signal(Rank{1}, peers, SignalOp::set, wide - 1, kSite);
    });
  }
}

TEST_CASE("contract: strict mode refuses a wait on a slot that nobody may write; without it one may look") {
  for (const bool strict : {true, false}) {
    over_bodies_and_views({.strict = strict}, [&](Job& job) {
      Fabric& fabric = job.at(0);
      const Slot slot = job.plan().beyond.at(0, Rank{2});
      const WaitSpec wait{.where = Rank{1}, .slots = {&slot, 1}, .value = 1};
      const char* refused =
          "a wait at here.cpp:7 for beyond from rank 2 of rank 1, which nobody may write: there are 2 ranks";
      CHECK(has(violation([&] { (void)fabric.test(wait, kSite); }), strict ? refused : ""));
      if (strict) CHECK(has(violation([&] { (void)fabric.wait(wait, kSite); }), refused));
      const Slot last = job.plan().beyond.at(0, Rank{1});
      CHECK(violation([&] { (void)fabric.test({.where = Rank{0}, .slots = {&last, 1}, .value = 1}, kSite); }).empty());
    });
  }
}

TEST_CASE("contract: strict mode refuses a second reset and a second set of a credit; without it both pass") {
  for (const bool strict : {true, false}) {
    over_bodies_and_views({.strict = strict}, [&](Job& job) {
      Fabric& fabric = job.at(0);
      const Slot out = job.plan().credit.at(1, Rank{0}, 1);
      fabric.signal(Rank{1}, out, SignalOp::set, 1, kSite);
      fabric.quiet(kSite);
      const std::string set = violation([&] { fabric.signal(Rank{1}, out, SignalOp::set, 1, kSite); });
      const Slot own = job.plan().credit.at(0, Rank{0}, 0);
      fabric.signal(Rank{0}, own, SignalOp::set, 1, kSite);
      fabric.signal(Rank{0}, own, SignalOp::set, 0, kSite);
      const std::string reset = violation([&] { fabric.signal(Rank{0}, own, SignalOp::set, 0, kSite); });
      const std::string of_others = violation([&] { fabric.signal(Rank{1}, out, SignalOp::set, 0, kSite); });
      if (!strict) {
        for (const std::string& text : {set, reset, of_others}) CHECK(text.empty());
        return;
      }
      CHECK(has(set, "rank 0 core 0 sets credit[1] from rank 0 event 1 of rank 1 at here.cpp:7, which is still 0x1"));
      CHECK(has(reset,
                "rank 0 core 0 resets credit[0] from rank 0 event 0 at here.cpp:7, which core 0 has reset already"));
      CHECK(has(of_others, "only its source may set it, only its owner back to 0"));
    });
  }
}

TEST_CASE("contract: a slot that was never declared, an empty wait, too little room for the words") {
  over_bodies_and_views({}, [](Job& job) {
    Fabric& fabric = job.at(0);
    const std::array slots{job.hand(0).word(1), Slot{job.plan().slots->size()}};
    std::array<std::uint64_t, 1> room{};
    const WaitSpec none{.where = Rank{0}, .slots = {}};
    const WaitSpec undeclared{.where = Rank{0}, .slots = slots, .value = 1};
    const WaitSpec small{
        .where = Rank{0}, .slots = {slots.data(), 1}, .value = 1, .observed = std::span(room).first(0)};
    const std::array declared{slots[0], job.hand(0).word(1, 1)};
    const WaitSpec wrong{.where = Rank{0}, .slots = declared, .value = 1, .observed = room};
    CHECK(has(violation([&] { (void)fabric.wait(none, kSite); }), "here.cpp:7 names no slot"));
    CHECK(has(violation([&] { (void)fabric.test(none, kSite); }), "names no slot"));
    CHECK(has(violation([&] { (void)fabric.wait(undeclared, kSite); }), "slot"));
    CHECK(has(violation([&] { (void)fabric.test(undeclared, kSite); }), "slot"));
    CHECK(has(violation([&] { (void)fabric.wait(wrong, kSite); }), "2 slots has room for 1 words"));
    CHECK(has(violation([&] { fabric.signal(Rank{1}, slots[1], SignalOp::set, 1, kSite); }), "slot"));
    CHECK(!fabric.test(small, kSite));
    // None of them left the record in the middle of a wait.
    CHECK(job.seat(0).record().epoch.load() % 2 == 0);
  });
}
