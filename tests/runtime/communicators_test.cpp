// Several communicators on one job: overlapping, side by side, and made wrongly.

#include <atomic>
#include <random>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

std::vector<Rank> ranks(std::initializer_list<int> values) {
  std::vector<Rank> list;
  for (const int value : values) list.emplace_back(value);
  return list;
}

bool has(const std::vector<Rank>& members, Rank rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

/// A communicator with a table of one word per member; every core of every member checks what arrives.
class Group {
 public:
  static Result<Group> make(World& world, int id, const std::vector<Rank>& members) {
    Result<Communicator*> comm = world.communicator(CommunicatorId{id}, members);
    if (!comm) return comm.error();
    Result<Offset> table = (*comm)->allocate(Bytes{8 * members.size()});
    if (!table) return table.error();
    return Group(**comm, *table, static_cast<std::uint64_t>(id) << 32);
  }

  /// Core 0 of every member writes its word everywhere; after the barrier every core has to find all of them.
  Result<void> round() {
    const std::uint64_t value = salt_ | ++round_;
    std::vector<int> wrong(static_cast<std::size_t>(comm_->cores()));
    const Result<void> launched = comm_->launch("group", [&](CoreContext& context) {
      ZeroBufferSync sync(context);
      if (context.core() == Core{0}) {
        for (Rank dst{0}; dst.value() < context.ranks(); ++dst) {
          context.put(dst, table_ + Bytes{8 * context.rank().index()}, std::span<const std::uint64_t>{&value, 1});
        }
      }
      const shmem::Witness everyone = sync.barrier_all();
      std::vector<std::uint64_t> found(static_cast<std::size_t>(context.ranks()));
      context.get(context.rank(), table_, std::span{found}, everyone);
      for (const std::uint64_t word : found) wrong[context.core().index()] += word != value;
      sync.barrier_all();
    });
    for (const int count : wrong) CHECK(count == 0);
    return launched;
  }

  [[nodiscard]] Communicator& comm() { return *comm_; }

 private:
  Group(Communicator& comm, Offset table, std::uint64_t salt) : comm_(&comm), table_(table), salt_(salt) {}
  Communicator* comm_;
  Offset table_;
  std::uint64_t salt_;
  std::uint64_t round_ = 0;
};

/// Each rank takes part in those of the groups it is in, in an order drawn anew, alike on all ranks, in every round.
void check_interleaved(std::int32_t count, std::int32_t cores, const std::vector<std::vector<Rank>>& lists,
                       int rounds) {
  constexpr std::uint64_t kSeed = 20260722;
  CAPTURE(kSeed);
  check_all_well(run_ranks(count, small_config(cores), [&](World& world) -> Result<void> {
    std::vector<std::optional<Group>> groups(lists.size());
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (!has(lists[i], world.rank())) continue;
      Result<Group> group = Group::make(world, static_cast<int>(i) + 1, lists[i]);
      if (!group) return group.error();
      groups[i] = *group;
    }
    std::mt19937_64 random(kSeed);
    for (int round = 0; round < rounds; ++round) {
      const std::size_t first = random() % lists.size();
      for (std::size_t i = 0; i < lists.size(); ++i) {
        auto& group = groups[(first + i) % lists.size()];
        if (!group) continue;
        if (Result<void> done = group->round(); !done) return done;
      }
      if (round % 100 != 0) continue;
      if (Result<void> met = world.all().barrier(); !met) return met;
    }
    return {};
  }));
}

}  // namespace

TEST_CASE("two overlapping communicators keep apart for 1000 rounds") {
  check_interleaved(4, 1, {ranks({0, 1, 2}), ranks({1, 2, 3})}, 1000);
}

TEST_CASE("overlapping communicators in another order of members, with several cores") {
  check_interleaved(4, 2, {ranks({2, 0, 1}), ranks({3, 1, 2})}, 60);
}

TEST_CASE("sub-groups side by side, with different numbers and with the same") {
  check_interleaved(4, 2, {ranks({0, 1}), ranks({2, 3})}, 60);
  check_all_well(run_ranks(4, small_config(1), [&](World& world) -> Result<void> {
    const bool low = world.rank().value() < 2;
    Result<Group> group = Group::make(world, 1, low ? ranks({0, 1}) : ranks({3, 2}));
    if (!group) return group.error();
    for (int round = 0; round < 100; ++round) {
      if (Result<void> done = group->round(); !done) return done;
    }
    return {};
  }));
}

TEST_CASE("the same members twice") { check_interleaved(2, 2, {ranks({0, 1}), ranks({0, 1})}, 60); }

TEST_CASE("a group of three of four: the fourth takes no part, and may even end") {
  check_all_well(run_ranks(4, small_config(2), [&](World& world) -> Result<void> {
    if (world.rank() == Rank{1}) return {};
    Result<Group> group = Group::make(world, 1, ranks({0, 2, 3}));
    if (!group) return group.error();
    for (int round = 0; round < 50; ++round) {
      if (Result<void> done = group->round(); !done) return done;
    }
    CHECK(group->comm().ranks() == 3);
    CHECK(group->comm().world_rank(Rank{1}) == Rank{2});
    CHECK(group->comm().world_rank(group->comm().rank()) == world.rank());
    return {};
  }));
}

TEST_CASE("a caller's own slot family serves kernels of every communicator") {
  Config config = small_config(2);
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    plan.declare({.name = "token",
                  .base = map.user_data.at + Bytes{1024},
                  .sources = static_cast<std::uint32_t>(map.shape.ranks),
                  .events = 3});
  };
  check_all_well(run_ranks(2, config, [&](World& world) -> Result<void> {
    Result<Communicator*> second = world.communicator(CommunicatorId{1}, ranks({1, 0}));
    if (!second) return second.error();
    for (std::uint64_t round = 1; round <= 50; ++round) {
      for (Communicator* comm : {&world.all(), *second}) {
        const Result<void> launched = comm->launch("tokens", [&](CoreContext& context) {
          if (context.core() != Core{0}) return;
          const shmem::SlotFamily& token = context.slots().family("token");
          const Rank peer{1 - context.rank().value()};
          for (std::uint32_t event = 0; event < 3; ++event) {
            context.signal(peer, token.at(0, context.rank(), event), shmem::SignalOp::set, 10 * round + event);
          }
          for (std::uint32_t event = 0; event < 3; ++event) {
            shmem::Token seen = context.wait(token.at(0, peer, event), Compare::at_least, 10 * round + event);
            CHECK(seen.arrival().value < 10 * round + 10 + event + 1);
            consume_token(std::move(seen));
          }
        });
        if (!launched) return launched;
      }
    }
    return {};
  }));
}

TEST_CASE("slot families of a caller that lie badly break the contract") {
  const auto with = [](std::uint64_t base, const char* name) {
    Config config = small_config(1);
    config.declare_slots = [=](shmem::SlotPlan& plan, const shmem::BlockMap&) {
      plan.declare({.name = name, .base = Offset{base}, .events = 4, .writers = shmem::Writers::any_rank});
    };
    return World::run_as_threads(1, config, [](World&) -> Result<void> { return {}; });
  };
  constexpr std::uint64_t kEnd = 100 * 1024;
  CHECK(with(0, "first").has_value());
  CHECK(with(kEnd - 128, "last").has_value());
  CHECK_THROWS_AS((void)with(kEnd - 96, "beyond"), ContractViolation);
  CHECK_THROWS_WITH_AS((void)with(0x1F000, "over the barrier"),
                       doctest::Contains("slot families over the barrier and barrier overlap"), ContractViolation);
  CHECK_THROWS_AS((void)with(std::uint64_t{1} << 40, "outside"), ContractViolation);
  CHECK_THROWS_WITH_AS((void)with(16, "askew"),
                       doctest::Contains("slot family askew begins at 0x10, no multiple of 32"), ContractViolation);
  CHECK_THROWS_WITH_AS((void)with(0, "flag"), doctest::Contains("two slot families with the name flag"),
                       ContractViolation);
}

TEST_CASE("heaps of communicators are independent") {
  check_all_well(run_ranks(2, small_config(1), [&](World& world) -> Result<void> {
    Communicator* comms[2];
    for (int id = 1; id <= 2; ++id) {
      Result<Communicator*> made = world.communicator(CommunicatorId{id}, ranks({0, 1}));
      if (!made) return made.error();
      comms[id - 1] = *made;
    }
    const Result<Offset> first = comms[0]->allocate(Bytes{1000});
    const Result<Offset> second = comms[1]->allocate(Bytes{64});
    if (!first || !second) return Error{.code = Errc::out_of_memory, .context = "a small block"};
    CHECK(*first == *second);
    CHECK(comms[0]->heap_history() != comms[1]->heap_history());
    comms[0]->local<std::uint64_t>(*first, 1)[0] = 7;
    CHECK(comms[1]->local<std::uint64_t>(*second, 1)[0] == 0);
    CHECK(comms[0]->heap().used() == Bytes{1024});
    CHECK(comms[1]->heap().used() == Bytes{64});
    if (Result<void> freed = comms[0]->free(*first); !freed) return freed;
    const Result<void> again = comms[0]->free(*first);
    REQUIRE(!again);
    CHECK(again.error().code == Errc::invalid_argument);
    CHECK(comms[0]->heap().used() == Bytes{0});
    for (Communicator* comm : comms) {
      if (Result<void> met = comm->barrier(); !met) return met;
    }
    CHECK(world.all().heap().used() == Bytes{0});
    return world.all().barrier();
  }));
}

TEST_CASE("a full heap is an error and changes nothing") {
  check_all_well(run_ranks(2, small_config(1), [&](World& world) -> Result<void> {
    const shmem::Heap& heap = world.all().heap();
    const Bytes free = heap.largest_free();
    const std::uint64_t history = world.all().heap_history();
    const Result<Offset> at = world.all().allocate(Bytes{3U << 20});
    REQUIRE(!at);
    CHECK(at.error().code == Errc::out_of_memory);
    CHECK(contains(at.error().context, fmt::format("rank {}: symmetric allocation", world.rank())));
    CHECK(heap.used() == Bytes{0});
    CHECK(heap.largest_free() == free);
    CHECK(world.all().heap_history() == history);
    return world.all().barrier();
  }));
}

TEST_CASE("wrong arguments are named, and nobody waits") {
  check_all_well(run_ranks(3, small_config(1), [&](World& world) -> Result<void> {
    const auto refused = [&](int id, const std::vector<Rank>& members, std::string_view part) {
      const Result<Communicator*> made = world.communicator(CommunicatorId{id}, members);
      CHECK_FALSE(made.has_value());
      if (made) return;
      CHECK(made.error().code == Errc::invalid_argument);
      CHECK(contains(made.error().context, part));
    };
    refused(-1, ranks({0, 1, 2}), "communicator -1 of 4, numbered from 0: take a number of them");
    refused(4, ranks({0, 1, 2}), "communicator 4 of 4");
    refused(0, ranks({0, 1, 2}), "communicator 0 is in use");
    refused(1, ranks({0, 1, 2, 1}), "communicator 1: rank 1 is listed twice");
    refused(1, ranks({0, 1, 2, 3}), "rank 3 is listed twice or is none of the 3 ranks");
    refused(1, ranks({0, 1, 2, -1}), "rank -1");
    refused(1, {}, "only members take part");
    if (world.rank() == Rank{2}) refused(1, ranks({0, 1}), "rank 2 is no member; only members take part");
    Result<Communicator*> good = world.communicator(CommunicatorId{1}, ranks({0, 1, 2}));
    if (!good) return good.error();
    refused(1, ranks({0, 1, 2}), "communicator 1 is in use");
    return (*good)->barrier();
  }));
}

TEST_CASE("members with different lists all end with an error") {
  const std::vector<std::vector<Rank>> cases[] = {
      {ranks({0, 1}), ranks({0, 1, 2}), ranks({0, 1, 2})},
      {ranks({0, 1, 2}), ranks({0, 2, 1}), ranks({0, 1, 2})},
      {ranks({0, 1}), ranks({1, 0}), {}},
      {ranks({0, 1}), ranks({1, 2}), ranks({2, 0})},
  };
  for (const auto& lists : cases) {
    Config config = small_config(1);
    config.wait_limit = std::chrono::milliseconds(0);
    config.bootstrap_timeout = std::chrono::seconds(1);
    std::vector<std::optional<Error>> errors(3);
    HostBarrier ranks_meet(3);
    check_all_well(run_ranks(3, config, [&](World& world) -> Result<void> {
      ranks_meet.arrive_and_wait();
      const auto& mine = lists[world.rank().index()];
      if (!mine.empty()) {
        const Result<Communicator*> made = world.communicator(CommunicatorId{1}, mine);
        if (!made) errors[world.rank().index()] = made.error();
      }
      ranks_meet.arrive_and_wait();
      world.all().set_wait_limit(std::chrono::seconds(60));
      return world.all().barrier();  // the rest of the job goes on
    }));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (lists[rank].empty()) continue;
      CAPTURE(rank);
      CHECK(contains(text_of(errors[rank]), "creating communicator 1: "));
    }
  }
}

TEST_CASE("kernels of two communicators on one thread run one after the other") {
  check_all_well(run_ranks(2, small_config(3), [&](World& world) -> Result<void> {
    Result<Communicator*> other = world.communicator(CommunicatorId{1}, ranks({0, 1}));
    if (!other) return other.error();
    std::atomic<int> running_first = 0;
    std::atomic<int> running_second = 0;
    for (int round = 0; round < 50; ++round) {
      const Result<void> first = world.all().launch("first", [&](CoreContext& context) {
        ++running_first;
        ZeroBufferSync sync(context);
        sync.barrier_all();
        CHECK(running_second == 0);
        --running_first;
      });
      if (!first) return first;
      const Result<void> second = (*other)->launch("second", [&](CoreContext& context) {
        ++running_second;
        CHECK(running_first == 0);
        ZeroBufferSync sync(context);
        sync.barrier_all();
        --running_second;
      });
      if (!second) return second;
    }
    return {};
  }));
}
