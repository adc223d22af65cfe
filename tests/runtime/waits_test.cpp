// How waits end without their value: the caller's limit, a lost peer; and what is said about a late one.

#include <sstream>
#include <thread>

#include "runtime/diagnosis/overseer.hpp"
#include "shmem/thread_memory.hpp"
#include "shmem/wait.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

TEST_CASE("a deadline says who waited where for what, and what it saw") {
  Config config = small_config(2);
  const Outcomes outcomes = run_ranks(3, config, [&](World& world) -> Result<void> {
    Communicator& comm = world.all();
    if (Result<void> met = comm.barrier(); !met) return met;  // round 1
    if (world.rank() == Rank{2}) {                            // lives, and may still come
      while (!comm.aborted()) std::this_thread::yield();
      return *comm.aborted();
    }
    comm.set_wait_limit(world.rank() == Rank{0} ? std::chrono::milliseconds(300) : std::chrono::milliseconds(60'000));
    return comm.launch("probe", [](CoreContext& context) {
      ZeroBufferSync sync(context);
      sync.barrier_all({}, SourceSite{"somewhere.cpp", 42});
    });
  });
  REQUIRE(outcomes[0]);
  CHECK(outcomes[0]->code == Errc::deadline);
  const std::string text = text_of(outcomes[0]);
  CAPTURE(text);
  // Two ranks a core: core 1 owns rank 2, and its word of the round before is still there: creation, barrier, probe.
  CHECK(contains(text, "deadline passed: probe: rank 0 core 1 in probe round 2 waited 0."));
  CHECK(contains(text,
                 "s at somewhere.cpp:42 for barrier[1] from rank 2 in rank 0's memory to be >= 0x300 (barrier 3), sees "
                 "0x100 (barrier 1)"));
  CHECK(outcomes[0]->site.line == 42);
  for (const std::size_t rank : {1U, 2U}) {
    REQUIRE(outcomes[rank]);
    CHECK(outcomes[rank]->code == Errc::aborted);
    CHECK(contains(outcomes[rank]->context, "rank 0 gave up: deadline passed: rank 0 core 1 in probe round 2"));
  }
}

TEST_CASE("a rank that leaves early is named by those who wait for it") {
  for (const Profile& profile : kProfiles) {
    for (const std::int32_t ranks : {2, 3}) {
      const Outcomes outcomes = run_ranks(ranks, small_config(1, profile), [&](World& world) -> Result<void> {
        if (world.rank() == Rank{1}) return {};
        return world.all().barrier();
      });
      CHECK_FALSE(outcomes[1].has_value());
      for (const std::size_t rank : {0U, 2U}) {
        if (rank >= outcomes.size()) continue;
        REQUIRE(outcomes[rank]);
        CHECK(outcomes[rank]->code == Errc::deadlock);
        CHECK(contains(outcomes[rank]->context, "orphan wait: "));
        CHECK(contains(outcomes[rank]->context, "from rank 1 of rank "));
      }
    }
  }
}

TEST_CASE("a member of a group that leaves early is named, and the communicator with it") {
  const Outcomes outcomes = run_ranks(4, small_config(1), [&](World& world) -> Result<void> {
    if (world.rank() == Rank{0}) return {};
    const std::vector<Rank> members{Rank{3}, Rank{1}, Rank{2}};
    Result<Communicator*> made = world.communicator(CommunicatorId{1}, members);
    if (!made) return made.error();
    if (world.rank() == Rank{2}) return {};
    return (*made)->barrier();
  });
  for (const std::size_t rank : {1U, 3U}) {
    REQUIRE(outcomes[rank]);
    CHECK(contains(outcomes[rank]->context, "communicator 1 of world ranks 3 1 2: orphan wait: "));
    CHECK(contains(outcomes[rank]->context, "from rank 2 of rank "));  // of the communicator
  }
}

TEST_CASE("who ends right after its last signal is not lost") {
  // Rank 1 ends while rank 0 sits between its last look and the overseer's question.
  for (int round = 0; round < 30; ++round) {
    check_all_well(run_ranks(3, small_config(1), [&](World& world) { return world.all().barrier(); }));
  }
}

namespace {

/// One rank of a communicator of three, over memory of its own, and an overseer with a log to read.
struct Watched {
  Watched()
      : map(shmem::block_map(kSafe, {.ranks = 3, .slots = 2})),
        plan(shmem::SlotPlan::of_block(map)),
        memory(*shmem::ThreadMemory::allocate(1, map.size)) {
    peers.rank = Rank{0};
    peers.mem.assign(3, memory.at(0));
    peers.map = std::make_shared<shmem::BlockMap>(map);
    peers.slots = std::make_shared<shmem::SlotPlan>(plan);
    watch();
  }

  void watch() {
    Gone gone = [this](Rank member) -> std::optional<std::string> {
      if (on_question) on_question(member);
      if (!dead[member.index()]) return std::nullopt;
      return "pid 4711 has ended";
    };
    ask = make_overseer(peers, {Rank{5}, Rank{6}, Rank{7}}, 2, gone, Log::to_stream(lines, LogLevel::warn, Rank{5}), "",
                        {}, {});
  }

  std::optional<Error> look(const shmem::WaitSpec& spec, std::chrono::milliseconds waited, Core core = Core{0}) {
    return ask({.spec = spec,
                .slot = spec.slots.front(),
                .seen = shmem::load_slot(peers, spec.where, spec.slots.front()),
                .waited = waited,
                .op = "combine",
                .round = Round{9},
                .core = core,
                .site = SourceSite{"here.cpp", 7}});
  }
  void write(Slot slot, std::uint64_t value) {
    shmem::store_and_ring(memory.at(0) + plan.offset_of(slot).value(), shmem::SignalOp::set, value,
                          shmem::Sharing::threads);
  }
  [[nodiscard]] std::size_t log_lines() const {
    std::size_t count = 0;
    for (const char c : lines.str()) count += c == '\n' ? 1 : 0;
    return count;
  }

  shmem::BlockMap map;
  shmem::SlotPlan plan;
  shmem::ThreadMemory memory;
  shmem::Peers peers;
  std::ostringstream lines;
  std::vector<bool> dead = std::vector<bool>(3);
  std::function<void(Rank)> on_question;
  shmem::Overseer ask;
};

}  // namespace

TEST_CASE("a late peer gets a line after five seconds, then when the wait has doubled, and no verdict") {
  using std::chrono::milliseconds;
  Watched watched;
  const Slot slot = watched.plan.barrier().at(1, Rank{2});
  const shmem::WaitSpec spec{.where = Rank{0}, .slots = {&slot, 1}, .value = 0x500};
  const std::pair<int, std::size_t> steps[] = {{100, 0},    {4999, 0},   {5000, 1},   {5100, 1},   {9999, 1},
                                               {10'000, 2}, {15'000, 2}, {19'999, 2}, {20'000, 3}, {39'999, 3},
                                               {50'000, 4}, {79'999, 4}, {100, 4},  // a new wait
                                               {5000, 5}};
  for (const auto& step : steps) {
    const auto [waited, lines] = std::pair{step.first, step.second};
    CAPTURE(step.first);
    CHECK_FALSE(watched.look(spec, milliseconds(waited)).has_value());
    CHECK(watched.log_lines() == lines);
  }
  CHECK(contains(watched.lines.str(),
                 "[shmoe rank 5] warn: straggler: rank 0 core 0 in combine round 9 waited 5.0 s at here.cpp:7 for "
                 "barrier[1] from rank 2 in rank 0's memory to be >= 0x500 (barrier 5), sees 0x0; rank 7, which writes "
                 "it, is alive "
                 "and may still come\n"));
  // Cores count for themselves.
  CHECK_FALSE(watched.look(spec, milliseconds(5000), Core{1}).has_value());
  CHECK(watched.log_lines() == 6);
}

TEST_CASE("of a rank whose other core waits for a peer, those in its SyncAll have no line") {
  Watched watched;
  std::vector<std::uint64_t> control(shmem::ControlMap{.cores = 2}.size().value() / 8);
  watched.peers.control_map = {.cores = 2};
  watched.peers.control = reinterpret_cast<std::byte*>(control.data());
  watched.watch();
  const auto other_waits_for = [&](std::uint64_t epoch, Slot slot) {
    shmem::WaitRecord& record = watched.peers.control_map.record(watched.peers.control, Core{1});
    record.epoch = epoch;
    record.slot = slot.value();
  };
  const Slot peer = watched.plan.barrier().at(1, Rank{2});
  const Slot cores = watched.plan.sync_all().at(0, Rank{0});
  const auto look = [&](Slot slot, std::chrono::seconds waited) {
    const shmem::WaitSpec spec{.where = Rank{0}, .slots = {&slot, 1}, .value = 4};
    CHECK_FALSE(watched.look(spec, waited).has_value());
    return watched.log_lines();
  };
  other_waits_for(1, peer);
  CHECK(look(cores, std::chrono::seconds(5)) == 0);
  CHECK(look(peer, std::chrono::seconds(5)) == 1);
  other_waits_for(1, cores);
  CHECK(look(cores, std::chrono::seconds(10)) == 2);
  other_waits_for(2, peer);  // it waits no more
  CHECK(look(cores, std::chrono::seconds(20)) == 3);
}

TEST_CASE("a wait for one value says when the word is past it") {
  Watched watched;
  const Slot slot = watched.plan.barrier().at(1, Rank{2});
  const shmem::WaitSpec spec{.where = Rank{0}, .slots = {&slot, 1}, .compare = Compare::equal, .value = 0x500};
  watched.write(slot, 0x600);
  CHECK_FALSE(watched.look(spec, std::chrono::seconds(5)).has_value());
  CHECK(contains(watched.lines.str(),
                 "to be == 0x500 (barrier 5), sees 0x600 (barrier 6), which is past it; rank 7, which writes it, is "
                 "alive but has gone on: if the word only grows, the wait never ends\n"));
}

TEST_CASE("only the end of the rank that writes the slot ends the wait") {
  Watched watched;
  const Slot slot = watched.plan.barrier().at(0, Rank{1});
  const shmem::WaitSpec spec{.where = Rank{0}, .slots = {&slot, 1}, .value = 1};
  watched.dead[2] = true;
  CHECK_FALSE(watched.look(spec, std::chrono::seconds(1)).has_value());
  watched.dead[1] = true;
  const std::optional<Error> verdict = watched.look(spec, std::chrono::seconds(1));
  REQUIRE(verdict);
  CHECK(verdict->code == Errc::peer_lost);
  CHECK(verdict->where == Rank{6});
  CHECK(
      contains(verdict->context, "rank 6 is gone (pid 4711 has ended); rank 0 core 0 in combine round 9 waited 1.0 s"));
}

TEST_CASE("of a wait for many slots the one is named that nobody will write, wherever it is in the list") {
  Watched watched;
  const Slot slots[] = {watched.plan.barrier().at(0, Rank{1}), watched.plan.barrier().at(0, Rank{2})};
  const shmem::WaitSpec spec{.where = Rank{0}, .slots = slots, .value = 0x500};
  watched.dead[2] = true;
  std::optional<Error> verdict = watched.look(spec, std::chrono::seconds(1));
  REQUIRE(verdict);
  CHECK(verdict->where == Rank{7});
  CHECK(contains(verdict->context, "rank 7 is gone (pid 4711 has ended)"));
  CHECK(contains(verdict->context, "for barrier[0] from rank 2 (the first of 2 slots that is still missing)"));
  // It wrote before its end: the wait goes on for the other.
  watched.write(slots[1], 0x500);
  CHECK_FALSE(watched.look(spec, std::chrono::seconds(1)).has_value());
  watched.dead[1] = true;
  verdict = watched.look(spec, std::chrono::seconds(1));
  REQUIRE(verdict);
  CHECK(verdict->where == Rank{6});
}

TEST_CASE("a rank that signals while it is looked at, and then ends, is not lost to a wait that goes on") {
  Watched watched;
  const Slot slots[] = {watched.plan.flag().at(0, Rank{1}, 0), watched.plan.flag().at(0, Rank{2}, 0)};
  watched.on_question = [&](Rank member) {
    if (member != Rank{2}) return;
    watched.write(slots[1], 1);
    watched.dead[2] = true;
  };
  for (const shmem::Match match : {shmem::Match::all, shmem::Match::sum}) {
    watched.write(slots[1], 0);
    const shmem::WaitSpec spec{
        .where = Rank{0}, .slots = slots, .match = match, .value = match == shmem::Match::all ? 1U : 2U};
    CHECK_FALSE(watched.look(spec, std::chrono::seconds(1)).has_value());
  }
}

TEST_CASE("any ends when no writer is left, a sum when somebody is gone who has added nothing") {
  Watched watched;
  const Slot slots[] = {watched.plan.flag().at(0, Rank{1}, 0), watched.plan.flag().at(0, Rank{2}, 0)};
  const shmem::WaitSpec any{.where = Rank{0}, .slots = slots, .match = shmem::Match::any, .value = 1};
  const shmem::WaitSpec sum{.where = Rank{0}, .slots = slots, .match = shmem::Match::sum, .value = 2, .upper = 2};
  watched.dead[1] = true;
  CHECK_FALSE(watched.look(any, std::chrono::seconds(1)).has_value());
  REQUIRE(watched.look(sum, std::chrono::seconds(1)));
  CHECK(watched.look(sum, std::chrono::seconds(1))->where == Rank{6});
  watched.write(slots[0], 1);
  CHECK_FALSE(watched.look(sum, std::chrono::seconds(1)).has_value());
  watched.dead[2] = true;
  REQUIRE(watched.look(any, std::chrono::seconds(1)));
  REQUIRE(watched.look(sum, std::chrono::seconds(1)));
  CHECK(watched.look(sum, std::chrono::seconds(1))->where == Rank{7});
}

TEST_CASE("a word that came while the overseer looked wins over its verdict") {
  Watched watched;
  const Slot slot = watched.plan.barrier().at(0, Rank{1});
  watched.peers.crowd = shmem::Crowd{2};
  watched.peers.overseer = [&](const shmem::SleepingWait& wait) -> std::optional<Error> {
    watched.write(slot, 1);
    watched.dead[1] = true;
    return watched.ask(wait);
  };
  shmem::WaitRecord record{};
  shmem::WaitList list{};
  shmem::EventRing events{};
  shmem::Waiter waiter(watched.peers, record, list, events, shmem::Sharing::threads);
  const Result<shmem::Arrival> arrival =
      waiter.wait({.where = Rank{0}, .slots = {&slot, 1}, .value = 1}, {}, SourceSite::here());
  REQUIRE(arrival.has_value());
  CHECK(arrival->value == 1);
}
