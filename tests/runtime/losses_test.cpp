// Communicators of those who are left.

#include <algorithm>
#include <mutex>
#include <random>

#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;

namespace {

std::vector<Rank> ranks_of(std::initializer_list<int> values) {
  std::vector<Rank> list;
  for (const int value : values) list.emplace_back(value);
  return list;
}

/// What the survivors of `comm` agree on, over however many losses it takes.
Result<Communicator*> go_on(World& world, Communicator& comm, std::int32_t& next) {
  for (;;) {
    Result<Communicator*> left = world.without_lost(CommunicatorId{next++}, comm);
    if (left || left.error().code == Errc::invalid_argument) return left;
  }
}

}  // namespace

TEST_CASE("survivors go on without the first rank, and end the job") {
  check_all_well(run_ranks(4, small_config(2), [&](World& world) -> Result<void> {
    CHECK(world.lost().empty());
    if (world.rank() == Rank{0}) return {};
    const Result<void> met = world.all().barrier();
    REQUIRE_FALSE(met);
    CHECK(contains(to_string(met.error()), "orphan wait: "));  // it ended in good order
    const Result<Communicator*> left = world.without_lost(CommunicatorId{1}, world.all());
    if (!left) return left.error();
    CHECK(world.lost() == ranks_of({0}));
    CHECK((*left)->members() == ranks_of({1, 2, 3}));
    for (int round = 0; round < 20; ++round) {
      if (Result<void> done = (*left)->barrier(); !done) return done;
    }
    return world.finalize();
  }));
}

TEST_CASE("a group loses a member; the job goes on for the others") {
  check_all_well(run_ranks(5, small_config(1), [&](World& world) -> Result<void> {
    const bool low = world.rank().value() < 2;
    Result<Communicator*> group = world.communicator(CommunicatorId{1}, low ? ranks_of({1, 0}) : ranks_of({4, 2, 3}));
    if (!group) return group.error();
    if (world.rank() == Rank{2}) return {};
    if (low) return (*group)->barrier();
    CHECK_FALSE((*group)->barrier());
    const Result<Communicator*> left = world.without_lost(CommunicatorId{2}, **group);
    if (!left) return left.error();
    CHECK((*left)->members() == ranks_of({4, 3}));
    return (*left)->barrier();
  }));
}

TEST_CASE("where nobody is gone there is nothing to agree on") {
  Config config = small_config(1);
  config.bootstrap_timeout = std::chrono::milliseconds(200);
  HostBarrier ranks_meet(2);
  check_all_well(run_ranks(2, config, [&](World& world) -> Result<void> {
    const Result<Communicator*> refused = world.without_lost(CommunicatorId{0}, world.all());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::invalid_argument);
    if (Result<void> met = world.all().barrier(); !met) return met;
    const Result<Communicator*> left = world.without_lost(CommunicatorId{1}, world.all());
    REQUIRE_FALSE(left);
    CHECK(left.error().code == Errc::deadline);
    CHECK(contains(left.error().context, fmt::format("rank {} finds none of the 2 members gone", world.rank())));
    ranks_meet.arrive_and_wait();
    return {};
  }));
}

TEST_CASE("whoever ends meanwhile: all who are left agree on the same ranks") {
  std::random_device device;
  const std::uint64_t seed = device();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int repetition = 0; repetition < 15; ++repetition) {
    CAPTURE(repetition);
    constexpr std::int32_t kRanks = 6;
    // After so many barriers each rank ends; two of them stay.
    std::vector<int> life(kRanks, 1000);
    std::vector<std::size_t> order{0, 1, 2, 3, 4, 5};
    std::ranges::shuffle(order, random);
    for (std::size_t i = 0; i < 4; ++i) life[order[i]] = static_cast<int>(random() % 6);
    std::mutex mutex;
    std::vector<std::vector<Rank>> found;
    Config config = small_config(1);
    config.communicators = 16;
    check_all_well(run_ranks(kRanks, config, [&](World& world) -> Result<void> {
      Communicator* comm = &world.all();
      std::int32_t next = 1;
      int rounds = 0;
      for (int done = 0; done < 30;) {
        if (rounds++ == life[world.rank().index()]) return {};
        if (comm->barrier()) {
          ++done;
          continue;
        }
        if (rounds++ == life[world.rank().index()]) return {};
        const Result<Communicator*> left = go_on(world, *comm, next);
        if (!left) return left.error();
        comm = *left;
        done = 0;
      }
      const std::lock_guard lock(mutex);
      found.push_back(world.lost());
      return {};
    }));
    REQUIRE(found.size() == 2);
    CHECK(found[0] == found[1]);
    CHECK(found[0].size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(std::ranges::count(found[0], Rank{order[i]}) == 1);
  }
}
