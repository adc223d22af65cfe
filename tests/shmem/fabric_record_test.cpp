// What a rank writes about itself: wait records and the ledger.

#include <doctest/doctest.h>

#include "tests/shmem/over_bodies.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

void enter(Fabric& fabric, const char* op, std::uint64_t round) {
  fabric.actor({.kind = ActorEvent::Kind::enter, .op = op, .round = Round{round}}, SourceSite::here());
}

Life life_of(const WaitRecord& record) { return static_cast<Life>(record.life.load()); }

}  // namespace

TEST_CASE("record: the epoch is odd while a core waits, and the rest says for what") {
  over_bodies({.ranks = 3, .cores = 2}, [](Job& job) {
    const std::array slots{job.hand(2).word(0), job.hand(2).word(0, 1), job.hand(2).word(0, 2)};
    WaitRecord& record = job.seat(1).record(1);
    CHECK(record.epoch.load() == 0);
    const Time before = job.at(1).now();
    const std::uint32_t line = __LINE__ + 5;
    std::string failure;
    std::thread waiter([&] {
      enter(job.at(1, 1), "dispatch", 41);
      const WaitSpec spec{.where = Rank{2}, .slots = slots, .compare = Compare::equal, .value = 0x77};
      const auto result = job.at(1, 1).wait(spec, SourceSite::here());
      if (!result) failure = to_string(result.error());
    });
    REQUIRE(comes_true([&] { return record.epoch.load() == 1; }));
    CHECK(record.value.load() == 0x77);
    CHECK(record.round.load() == 41);
    CHECK(record.slot.load() == slots[0].value());
    CHECK(record.count.load() == 3);
    CHECK(record.where.load() == 2);
    CHECK(record.match.load() == static_cast<std::uint8_t>(Match::all));
    CHECK(record.compare.load() == static_cast<std::uint8_t>(Compare::equal));
    CHECK(record.since_ns.load() >= before.count());
    CHECK(record.site.text() == "fabric_record_test.cpp");
    CHECK(record.site.number() == line);
    CHECK(record.op.text() == "dispatch");
    CHECK(life_of(record) == Life::running);
    // The neighbours' records are their own.
    CHECK(job.seat(1).record(0).epoch.load() == 0);
    CHECK(job.seat(2).record(1).epoch.load() == 0);

    job.hand(0).set(2, slots[0], 0x77);
    job.hand(0).set(2, slots[1], 0x77);
    CHECK(comes_true([&] { return record.slot.load() == slots[2].value(); }));
    CHECK(record.epoch.load() == 1);
    job.hand(0).set(2, slots[2], 0x77);
    waiter.join();
    CHECK(failure.empty());
    CHECK(record.epoch.load() == 2);
    // A wait whose value is there writes nothing.
    CHECK(job.at(1, 1).wait({.where = Rank{2}, .slots = slots, .value = 1}, SourceSite::here()).has_value());
    CHECK(record.epoch.load() == 2);
  });
}

TEST_CASE("record: an ended wait of any kind leaves the epoch even and no sleeper behind") {
  over_bodies({}, [](Job& job) {
    std::vector<Slot> slots;
    for (std::uint32_t i = 0; i < 200; ++i) slots.push_back(job.hand(0).many(i));
    std::uint64_t epoch = 0;
    for (const Match match : {Match::all, Match::any, Match::sum}) {
      const WaitSpec spec{.where = Rank{1},
                          .slots = slots,
                          .match = match,
                          .value = 1,
                          .deadline = job.at(0).now() + std::chrono::milliseconds(3)};
      CHECK(!job.at(0).wait(spec, SourceSite::here()).has_value());
      epoch += 2;
      CHECK(job.seat(0).record().epoch.load() == epoch);
      std::uint32_t left = 0;
      for (const Slot slot : slots) left += job.hand(0).sleepers(1, slot);
      CHECK(left == 0);
    }
  });
}

TEST_CASE("record: a core's life and its operator follow what it says") {
  over_bodies({}, [](Job& job) {
    WaitRecord& record = job.seat(0).record();
    CHECK(life_of(record) == Life::parked);
    job.at(0).actor({.kind = ActorEvent::Kind::start, .op = {}, .round = Round{}}, SourceSite::here());
    CHECK(life_of(record) == Life::running);
    const std::uint64_t progress = record.progress.load();
    enter(job.at(0), "an operator with a name that is too long for it", 1);
    CHECK(record.op.text() == "an operator with a name");
    CHECK(life_of(record) == Life::running);
    enter(job.at(0), "short", 2);
    CHECK(record.op.text() == "short");
    job.at(0).actor({.kind = ActorEvent::Kind::leave, .op = {}, .round = Round{}}, SourceSite::here());
    CHECK(record.op.text().empty());
    CHECK(life_of(record) == Life::parked);
    CHECK(record.progress.load() == progress + 3);
    job.at(0).actor({.kind = ActorEvent::Kind::stop, .op = {}, .round = Round{}}, SourceSite::here());
    CHECK(life_of(record) == Life::parked);
    job.seat(0).drop_fabrics();
    CHECK(life_of(record) == Life::ended);
  });
}

TEST_CASE("record: the text of a place survives, long names are cut") {
  RecordText text{};
  text.store("wait.cpp", 4'000'000'000U);
  CHECK(text.text() == "wait.cpp");
  CHECK(text.number() == 4'000'000'000U);
  text.store("a_file_name_that_does_not_fit_here.cpp", 7);
  CHECK(text.text() == std::string("a_file_name_that_does_not_fit_here.cpp").substr(0, 27));
  CHECK(text.number() == 7);
  text.store("", 0);
  CHECK(text.text().empty());
}

TEST_CASE("ledger: each (destination, slot) has its count, last value, round, core and place") {
  over_bodies({.ranks = 3, .cores = 2}, [](Job& job) {
    const Hand first = job.hand(1, 0);
    const Hand second = job.hand(1, 1);
    enter(first.fabric(), "notify", 5);
    enter(second.fabric(), "notify", 6);
    first.set(0, first.word(1, 2), 100);
    second.set(0, first.word(1, 2), 101);
    first.fabric().signal(Rank{2}, first.word(1, 2), SignalOp::set, 7, SourceSite{"op.cpp", 99});
    first.add(0, first.counter(3), 4);
    first.add(0, first.counter(3), 5);
    first.put_signal(2, job.plan().area(), 1, first.word(1, 3), SignalOp::set, 8);

    const LedgerEntry& word = job.seat(1).ledger(Rank{0}, first.word(1, 2));
    CHECK(word.count.load() == 2);
    CHECK(word.value.load() == 101);
    CHECK(word.round.load() == 6);
    CHECK(word.core.load() == 1);
    CHECK(word.site.text() == "fabric_record_test.cpp");
    const LedgerEntry& elsewhere = job.seat(1).ledger(Rank{2}, first.word(1, 2));
    CHECK(elsewhere.count.load() == 1);
    CHECK(elsewhere.value.load() == 7);
    CHECK(elsewhere.round.load() == 5);
    CHECK(elsewhere.core.load() == 0);
    CHECK(elsewhere.site.text() == "op.cpp");
    CHECK(elsewhere.site.number() == 99);
    const LedgerEntry& counter = job.seat(1).ledger(Rank{0}, first.counter(3));
    CHECK(counter.count.load() == 2);
    CHECK(counter.value.load() == 5);
    CHECK(job.seat(1).ledger(Rank{2}, first.word(1, 3)).value.load() == 8);
    // Nothing else was written, by this rank or by another.
    std::uint64_t total = 0;
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      for (std::uint32_t i = 0; i < job.plan().slots->ledger_size(); ++i) {
        total += job.plan().control.ledger(job.seat(rank).peers().control, i).count.load();
      }
    }
    CHECK(total == 6);
  });
}

TEST_CASE("ledger: a signal to several ranks is one signal to each") {
  over_bodies({.ranks = 4, .cores = 2}, [](Job& job) {
    const Hand hand = job.hand(1, 1);
    enter(hand.fabric(), "notify", 9);
    const std::array dsts{Rank{3}, Rank{0}};
    hand.fabric().signal_each(dsts, hand.word(1, 2), SignalOp::set, 50, SourceSite{"op.cpp", 12});
    hand.fabric().signal_each({}, hand.word(1, 2), SignalOp::set, 51, SourceSite{"op.cpp", 13});
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      const bool told = rank == 0 || rank == 3;
      CHECK(hand.get<std::uint64_t>(rank, job.plan().slots->offset_of(hand.word(1, 2))) == (told ? 50 : 0));
      const LedgerEntry& entry = job.seat(1).ledger(Rank{rank}, hand.word(1, 2));
      CHECK(entry.count.load() == (told ? 1 : 0));
      CHECK(entry.value.load() == (told ? 50 : 0));
      CHECK(entry.round.load() == (told ? 9 : 0));
      CHECK(entry.core.load() == (told ? 1 : 0));
      CHECK(entry.site.number() == (told ? 12 : 0));
    }
    const std::array self{Rank{1}, Rank{1}};
    hand.fabric().signal_each(self, job.plan().slots->sync_all().at(0, Rank{0}), SignalOp::add, 3, SourceSite{});
    CHECK(hand.get<std::uint64_t>(1, job.plan().slots->offset_of(job.plan().slots->sync_all().at(0, Rank{0}))) == 6);
  });
}

TEST_CASE("ledger: cores that add to one slot keep apart") {
  over_bodies({.cores = 2}, [](Job& job) {
    const Slot slot = job.plan().slots->sync_all().at(0, Rank{0});
    job.hand(1, 0).add(1, slot, 1);
    job.hand(1, 1).add(1, slot, 2);
    job.hand(1, 1).add(1, slot, 3);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 0).count.load() == 1);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 0).value.load() == 1);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 1).count.load() == 2);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 1).value.load() == 3);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 1).core.load() == 1);
  });
}

TEST_CASE("record: which block of how many a core runs") {
  over_bodies({}, [](Job& job) {
    WaitRecord& record = job.seat(0).record();
    const auto tell = [&](ActorEvent::Kind kind, std::int32_t block, std::int32_t blocks) {
      job.at(0).actor({.kind = kind, .op = "batch", .round = Round{}, .block = block, .blocks = blocks}, SourceSite{});
    };
    tell(ActorEvent::Kind::start, 0, 48);
    CHECK(record.block.load() == 0);
    CHECK(record.blocks.load() == 48);
    tell(ActorEvent::Kind::enter, 2, 48);
    CHECK(record.block.load() == 2);
    tell(ActorEvent::Kind::enter, 0, 0);  // the round, once the core knows it
    tell(ActorEvent::Kind::leave, 0, 0);
    CHECK(record.block.load() == 2);
    CHECK(record.blocks.load() == 48);
  });
}

TEST_CASE("events: what a core did, in its order, with places and rounds") {
  over_bodies({.ranks = 3}, [](Job& job) {
    const Hand hand = job.hand(0);
    const EventRing& ring = job.plan().control.ring(job.seat(0).peers().control, Core{0});
    const std::uint64_t before = ring.written();
    const SourceSite site{.file = "here.cpp", .line = 12};
    enter(job.at(0), "dispatch", 41);
    job.at(0).signal(Rank{1}, hand.word(0), SignalOp::set, 5, site);
    job.at(0).fence(Rank{2}, site);
    job.at(0).quiet(site);
    const Slot own = hand.counter(0);
    const Time patience = job.at(0).now() + std::chrono::milliseconds(3);
    CHECK(!job.at(0).wait({.where = Rank{2}, .slots = {&own, 1}, .value = 9, .deadline = patience}, site));
    CHECK(job.at(0).wait({.where = Rank{2}, .slots = {&own, 1}, .value = 0}, site));  // at once: no event
    job.at(0).actor({.kind = ActorEvent::Kind::leave, .op = {}, .round = Round{}}, site);

    const std::vector<Event> events = ring.last(ring.written() - before);
    std::vector<EventKind> kinds;
    for (const Event& event : events) {
      kinds.push_back(event.kind);
      CHECK(event.round == Round{41});
    }
    using enum EventKind;
    REQUIRE(kinds == std::vector{enter, set, fence, quiet, wait_begin, wait_failed, leave});
    CHECK(std::string(events[0].text.data()) == "dispatch");
    CHECK(std::string(events[1].text.data()) == "here.cpp");
    CHECK(events[1].line == 12);
    CHECK(events[1].rank == Rank{1});
    CHECK(events[1].slot == hand.word(0));
    CHECK(events[1].value == 5);
    CHECK(events[1].count == 1);
    CHECK(events[2].rank == Rank{2});
    CHECK(events[4].rank == Rank{2});
    CHECK(events[4].slot == own);
    CHECK(events[4].value == 9);
    CHECK(events[5].value == 0);
    for (std::size_t i = 1; i < events.size(); ++i) CHECK(events[i].time_ns >= events[i - 1].time_ns);
  });
}

TEST_CASE("events: a signal to several ranks is one, and says how many they are") {
  Job job(Body::threads, {.ranks = 3});
  const EventRing& ring = job.plan().control.ring(job.seat(0).peers().control, Core{0});
  const std::array both{Rank{1}, Rank{2}};
  job.at(0).signal_each(both, job.hand(0).word(0, 1), SignalOp::set, 6, SourceSite{});
  CHECK(ring.written() == 1);
  CHECK(ring.last(1).front().rank == Rank{1});
  CHECK(ring.last(1).front().count == 2);
  job.at(0).signal_each({}, job.hand(0).word(0, 1), SignalOp::set, 7, SourceSite{});
  CHECK(ring.written() == 1);
}

TEST_CASE("ledger: a refused signal leaves no entry and no word") {
  over_bodies({}, [](Job& job) {
    const Hand hand = job.hand(0);
    CHECK_THROWS_WITH_AS(hand.add(1, hand.word(0), 1),
                         doctest::Contains("is declared for set and is signalled with add"), ContractViolation);
    CHECK_THROWS_WITH_AS(hand.set(1, hand.word(1), 1), doctest::Contains("and is no declared writer of it"),
                         ContractViolation);
    const std::array beyond{Rank{1}, Rank{2}};
    CHECK_THROWS_WITH_AS(hand.fabric().signal_each(beyond, hand.word(1), SignalOp::set, 1, SourceSite{}),
                         doctest::Contains("and is no declared writer of it"), ContractViolation);
    CHECK(job.seat(0).ledger(Rank{1}, hand.word(0)).count.load() == 0);
    CHECK(hand.get<std::uint64_t>(1, job.plan().slots->offset_of(hand.word(0))) == 0);
    CHECK(hand.get<std::uint64_t>(1, job.plan().slots->offset_of(hand.word(1))) == 0);
  });
}

TEST_CASE("ledger: without strict mode a signal to the slot of another writer is no signal to one of its own") {
  over_bodies({.ranks = 3, .strict = false}, [](Job& job) {
    const Hand hand = job.hand(0);
    hand.set(1, hand.word(2), 7);  // that rank 2 alone may write
    hand.fabric().quiet(SourceSite{});
    CHECK(hand.get<std::uint64_t>(1, job.plan().slots->offset_of(hand.word(2))) == 7);
    CHECK(job.seat(0).ledger(Rank{1}, hand.word(0)).count.load() == 0);
    hand.set(1, hand.word(0), 8);
    CHECK(job.seat(0).ledger(Rank{1}, hand.word(0)).count.load() == 1);
    CHECK(job.seat(0).ledger(Rank{1}, hand.word(0)).value.load() == 8);
  });
}

TEST_CASE("credit: its source sets it, its owner resets it, and the ledgers keep both apart") {
  over_bodies({.ranks = 2, .cores = 2}, [](Job& job) {
    const Hand source = job.hand(0);
    const Hand owner = job.hand(1);
    const Slot slot = job.plan().credit.at(1, Rank{0}, 1);
    for (int use = 0; use < 3; ++use) {
      source.wait(1, slot, Compare::equal, 0);
      source.set(1, slot, 1);
      owner.wait(1, slot, Compare::equal, 1);
      owner.set(1, slot, 0);
    }
    CHECK(job.seat(0).ledger(Rank{1}, slot).count.load() == 3);
    CHECK(job.seat(0).ledger(Rank{1}, slot).value.load() == 1);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 0, Side::owner).count.load() == 3);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 0, Side::owner).value.load() == 0);
    // One that a rank sends to itself has both sides in one ledger.
    const Slot own = job.plan().credit.at(0, Rank{1}, 0);
    owner.set(1, own, 1);
    owner.set(1, own, 0);
    owner.set(1, own, 1);
    CHECK(job.seat(1).ledger(Rank{1}, own).count.load() == 2);
    CHECK(job.seat(1).ledger(Rank{1}, own, 0, Side::owner).count.load() == 1);
  });
}

TEST_CASE("credit: whoever may not give that value, or whose turn it is not, is refused") {
  over_bodies({.ranks = 3, .cores = 2}, [](Job& job) {
    const Slot slot = job.plan().credit.at(0, Rank{0}, 1);
    CHECK(violation([&] { job.hand(2).set(1, slot, 1); }).find("is no declared writer") != std::string::npos);
    CHECK(violation([&] {
            job.hand(0).set(1, slot, 0);
          }).find("rank 0 sets credit[0] from rank 0 event 1 of rank 1 to 0x0") != std::string::npos);
    CHECK(violation([&] { job.hand(1).set(1, slot, 1); }).find("only its owner back to 0") != std::string::npos);
    CHECK(violation([&] { job.hand(1).add(1, slot, 1); }) != "");
    CHECK(job.hand(0).get<std::uint64_t>(1, job.plan().slots->offset_of(slot)) == 0);
    job.hand(0).set(1, slot, 1);
    CHECK(violation([&] {
            job.hand(0).set(1, slot, 1);
          }).find("rank 0 core 0 sets credit[0] from rank 0 event 1 of rank 1") != std::string::npos);
    job.hand(1, 1).set(1, slot, 0);
    CHECK(violation([&] { job.hand(1, 0).set(1, slot, 0); }).find("which core 1 has reset already") !=
          std::string::npos);
    CHECK(job.seat(0).ledger(Rank{1}, slot).count.load() == 1);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 0, Side::owner).count.load() == 1);
  });
  over_bodies({.ranks = 2, .cores = 2, .strict = false}, [](Job& job) {
    const Slot slot = job.plan().credit.at(0, Rank{0}, 1);
    job.hand(0).set(1, slot, 0);
    job.hand(1, 0).set(1, slot, 0);
    job.hand(1, 1).set(1, slot, 0);
    CHECK(job.seat(0).ledger(Rank{1}, slot).count.load() == 1);
    CHECK(job.seat(1).ledger(Rank{1}, slot, 0, Side::owner).count.load() == 2);
  });
}

TEST_CASE("control map: records and entries tile the block without touching") {
  for (const std::int32_t cores : {1, 2, 48}) {
    const ControlMap map{.cores = cores, .ledger_entries = 1000, .ranks = 33};
    std::byte* block = nullptr;
    const auto at = [&](const void* place) {
      return static_cast<std::uint64_t>(static_cast<const std::byte*>(place) - block);
    };
    std::vector<std::byte> memory(map.size().value() + 128);
    block = memory.data() + (128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 128) % 128;
    for (std::int32_t core = 0; core <= cores; ++core) {
      CHECK(at(&map.record(block, Core{core})) == 128U * static_cast<std::uint64_t>(core));
    }
    CHECK(at(&map.list(block, Core{0})) == 128U * static_cast<std::uint64_t>(cores + 1));
    CHECK(at(&map.list(block, Core{cores - 1})) + sizeof(WaitList) == at(&map.ledger(block, 0)));
    CHECK(at(&map.ledger(block, 0)) ==
          128U * static_cast<std::uint64_t>(cores + 1) + 576U * static_cast<std::uint64_t>(cores));
    CHECK(at(&map.ledger(block, 999)) + sizeof(LedgerEntry) == at(&map.membership(block)));
    CHECK(at(&map.membership(block)) + sizeof(Membership) == at(&map.member(block, Rank{0})));
    CHECK(at(&map.member(block, Rank{32})) + 4 <= at(&map.ring(block, Core{0})));
    CHECK(at(&map.ring(block, Core{0})) - at(&map.member(block, Rank{32})) < 4 + 64);
    CHECK(at(&map.ring(block, Core{cores - 1})) + sizeof(EventRing) <= map.size().value());
    CHECK(map.size().value() - at(&map.ring(block, Core{cores - 1})) - sizeof(EventRing) < 4096);
    CHECK(map.size().value() % 4096 == 0);
  }
}
