// Links as a value, and the fabric that keeps to them.

#include "runtime/throttled_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using namespace shmoe::runtime;
using namespace shmoe::runtime::test;
using namespace std::chrono_literals;
using shmem::Time;

namespace {

std::string fault_in(const char* text) {
  const Result<LinkSpeeds> links = LinkSpeeds::parse(text, "links");
  return links ? "none" : links.error().context;
}

Config linked(const LinkSpeeds& links, std::int32_t cores = 1) {
  Config config = small_config(cores);
  config.links = links;
  return config;
}

constexpr double kForever = 1e-6;  // bytes a second

}  // namespace

TEST_CASE("links: what is not named has no limit") {
  const Result<LinkSpeeds> links = LinkSpeeds::parse("# a comment\n\nranks 3\n0 1 50 # MB/s\n2 0 none\n1 2 0.5\n", "f");
  REQUIRE(links);
  CHECK(links->ranks() == 3);
  CHECK(links->seconds(Rank{0}, Rank{1}, Bytes{100'000'000}) == doctest::Approx(2));
  CHECK(links->seconds(Rank{1}, Rank{2}, Bytes{1'000'000}) == doctest::Approx(2));
  CHECK(links->seconds(Rank{1}, Rank{0}, Bytes{100'000'000}) == 0);
  CHECK(links->seconds(Rank{1}, Rank{1}, Bytes{100'000'000}) == 0);
  CHECK(links->exists(Rank{0}, Rank{2}));
  CHECK_FALSE(links->exists(Rank{2}, Rank{0}));
  CHECK_THROWS_AS(static_cast<void>(links->seconds(Rank{2}, Rank{0}, Bytes{1})), ContractViolation);
  CHECK_THROWS_AS(static_cast<void>(links->exists(Rank{3}, Rank{0})), ContractViolation);
}

TEST_CASE("links: a line that says nothing is named, with what to write") {
  CHECK(fault_in("") == "links: no links: write \"ranks N\", then \"FROM TO SPEED\" for each slow link");
  CHECK(fault_in("0 1 5") == "links:1: '0 1 5': write \"ranks N\" first, N from 1 to 4096");
  CHECK(fault_in("ranks 0") == "links:1: 'ranks 0': write \"ranks N\" first, N from 1 to 4096");
  CHECK(fault_in("ranks 4097") == "links:1: 'ranks 4097': write \"ranks N\" first, N from 1 to 4096");
  for (const char* line : {"0 2 5", "0 0 5", "-1 0 5", "0 1", "0 1 5 6", "0 1 0", "0 1 1e-9", "0 1 2e9", "0 1 inf",
                           "0 1 -3", "0 1 fast", "0 1 5MB", "x 1 5", "0 1 nan", "* 2 5", "* * 0", "** 1 5", "0 1 *"}) {
    CAPTURE(line);
    CHECK(fault_in(fmt::format("ranks 2\n\n{}\n", line).c_str()) ==
          fmt::format("links:3: '{}': write \"FROM TO SPEED\", two ranks of 0 to 1, or * for all, and MB/s from 1e-05 "
                      "to 1000000000, or none; a remark begins with #",
                      line));
  }
  const Result<LinkSpeeds> missing = LinkSpeeds::load("/nonexistent/links");
  REQUIRE_FALSE(missing);
  CHECK(contains(to_string(missing.error()), "cannot read /nonexistent/links, the file of the links"));
}

TEST_CASE("links: a star is every rank, and a later line wins") {
  const Result<LinkSpeeds> links = LinkSpeeds::parse("ranks 3\n* * 10\n1 * none\n* 2 0.5\n1 0 10\n", "f");
  REQUIRE(links);
  CHECK(to_string(*links) == "ranks 3\n0 1 10\n0 2 0.5\n1 0 10\n1 2 0.5\n2 0 10\n2 1 10\n");
  CHECK(to_string(*LinkSpeeds::parse(to_string(*links), "again")) == to_string(*links));
  CHECK(to_string(*LinkSpeeds::parse("ranks 3\n2 1 none", "f")) == "ranks 3\n2 1 none\n");
  CHECK(to_string(LinkSpeeds(4)) == "ranks 4\n");
  CHECK(links->digest() == LinkSpeeds::parse(to_string(*links), "again")->digest());
  CHECK(links->digest() != LinkSpeeds(3).digest());
  CHECK(LinkSpeeds(3).digest() != LinkSpeeds(4).digest());
}

TEST_CASE("links: what goes over one goes one after the other, and different ones at the same time") {
  LinkSpeeds speeds(3);
  speeds.set(Rank{0}, Rank{1}, 1000);
  speeds.set(Rank{0}, Rank{2}, 500);
  RankLinks links(speeds, Rank{0});
  CHECK(links.arrival(Rank{1}, Bytes{1000}, Time{0}) == 1s);
  CHECK(links.arrival(Rank{1}, Bytes{500}, Time{0}) == 1500ms);
  CHECK(links.arrival(Rank{2}, Bytes{1000}, Time{0}) == 2s);
  CHECK(links.arrival(Rank{0}, Bytes{1000}, 3s) == 3s);
  // Idle in between.
  CHECK(links.arrival(Rank{1}, Bytes{1000}, 10s) == 11s);
}

TEST_CASE("links: a link so slow that no clock counts the time carries for ever") {
  LinkSpeeds speeds(2);
  speeds.set(Rank{0}, Rank{1}, 1e-200);
  RankLinks links(speeds, Rank{0});
  const Time forever = links.arrival(Rank{1}, Bytes{1000}, 3s);
  CHECK(forever > std::chrono::years(50));
  CHECK(links.arrival(Rank{1}, Bytes{1000}, 10s) == forever);
}

TEST_CASE("throttle: a flag behind a fence, a quiet or its own payload comes no earlier than the link allows") {
  constexpr Time kCarried = 20ms;
  LinkSpeeds speeds(2);
  speeds.set(Rank{0}, Rank{1}, 1000.0 / 0.020);
  std::vector<Time> took;
  const auto body = [&](World& world) -> Result<void> {
    for (int how = 0; how < 3; ++how) {
      Result<void> done = world.all().launch("throttled", [&](CoreContext& context) {
        const Slot slot = context.slots().flag().at(0, Rank{0});
        const auto value = static_cast<std::uint64_t>(how + 1);
        if (context.rank() == Rank{1}) {
          std::vector<std::byte> row(1000);
          const auto arrived = consume_token(context.wait(slot, Compare::at_least, value));
          context.get(Rank{1}, Offset{0}, row, arrived);
          CHECK(row == std::vector<std::byte>(1000, static_cast<std::byte>(value)));
          return;
        }
        const std::vector<std::byte> row(1000, static_cast<std::byte>(value));
        const Time start = context.fabric().now();
        if (how == 2) {
          context.put_signal(Rank{1}, Offset{0}, row, slot, shmem::SignalOp::set, value);
        } else {
          context.put(Rank{1}, Offset{0}, row);
          how == 0 ? context.fence(Rank{1}) : context.quiet();
          context.signal(Rank{1}, slot, shmem::SignalOp::set, value);
        }
        took.push_back(context.fabric().now() - start);
      });
      if (!done) return done;
      if (Result<void> met = world.all().barrier(); !met) return met;
    }
    return {};
  };
  check_all_well(run_ranks(2, linked(speeds), body));
  REQUIRE(took.size() == 3);
  for (const Time time : took) CHECK(time >= kCarried);
}

TEST_CASE("throttle: a put where there is no link breaks the contract, and names both ranks") {
  LinkSpeeds speeds(2);
  speeds.set(Rank{0}, Rank{1}, 0);
  const auto body = [](World& world) {
    return world.all().launch("throttled", [](CoreContext& context) {
      const std::uint64_t word = 1;
      if (context.rank() == Rank{0}) context.put(Rank{1}, Offset{0}, std::span{&word, 1});
    });
  };
  const Outcomes outcomes = run_ranks(2, linked(speeds), body);
  CHECK(contains(text_of(outcomes[0]), "rank 0 writes to rank 1, no link 0 -> 1 in the links: give it one there"));
}

TEST_CASE("throttle: links are those between ranks of the job, in a communicator of some of them as well") {
  constexpr Time kCarried = 20ms;
  LinkSpeeds speeds(3);
  for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 0}}) speeds.set(Rank{from}, Rank{to}, 0);
  speeds.set(Rank{2}, Rank{1}, 8 / 0.020);
  const std::vector<Rank> members{Rank{2}, Rank{1}};  // ranks 0 and 1 there
  Time took{0};
  check_all_well(run_ranks(3, linked(speeds), [&](World& world) -> Result<void> {
    if (world.rank() == Rank{0}) return world.all().barrier();
    const Result<Communicator*> pair = world.communicator(CommunicatorId{1}, members);
    if (!pair) return pair.error();
    Result<void> done = (*pair)->launch("throttled", [&](CoreContext& context) {
      if (context.rank() == Rank{1}) return;
      const std::uint64_t word = 1;
      const Time start = context.fabric().now();
      context.put(Rank{1}, Offset{0}, std::span{&word, 1});
      context.quiet();
      took = context.fabric().now() - start;
    });
    if (!done) return done;
    return world.all().barrier();
  }));
  CHECK(took >= kCarried);
}

TEST_CASE("throttle: links of another number of ranks are refused before anybody starts") {
  for (const std::int32_t ranks : {1, 3}) {
    bool ran = false;
    const Result<void> refused = World::run_as_threads(2, linked(LinkSpeeds(ranks)), [&](World&) -> Result<void> {
      ran = true;
      return {};
    });
    REQUIRE_FALSE(refused);
    CHECK_FALSE(ran);
    CHECK(
        to_string(refused.error()) ==
        fmt::format("invalid argument: the links: links of {0} ranks, the job has 2: write \"ranks 2\" and their links "
                    "there, or start {0} ranks",
                    ranks));
  }
}

// Rank 0 has sent over a link that carries for ever when it says so; what it waits for there no rank can end but by an
// abort.
TEST_CASE("throttle: whoever is held by a link goes on when the job is given up") {
  LinkSpeeds speeds(3);
  speeds.set(Rank{0}, Rank{1}, kForever);
  enum class How { fence, quiet, put_signal };
  for (const How how : {How::fence, How::quiet, How::put_signal}) {
    const Outcomes outcomes = run_ranks(3, linked(speeds), [&](World& world) -> Result<void> {
      return world.all().launch("held", [&](CoreContext& context) {
        const Slot told = context.slots().flag().at(0, Rank{0});
        const std::uint64_t word = 1;
        if (context.rank() == Rank{0}) {
          context.put(Rank{1}, Offset{0}, std::span{&word, 1});
          context.signal(Rank{2}, told, shmem::SignalOp::set, 1);
          if (how == How::fence) context.fence(Rank{1});
          if (how == How::quiet) context.quiet();
          if (how == How::put_signal) {
            context.put_signal(Rank{1}, Offset{0}, std::as_bytes(std::span{&word, 1}), told, shmem::SignalOp::set, 1);
          }
        }
        if (context.rank() == Rank{2}) {
          consume_token(context.wait(told, Compare::at_least, 1));
          throw std::runtime_error("rank 2 has seen enough");
        }
        consume_token(context.wait(context.slots().flag().at(0, Rank{2}), Compare::at_least, 1));
      });
    });
    for (const auto& outcome : outcomes) CHECK(contains(text_of(outcome), "rank 2 has seen enough"));
  }
}

TEST_CASE("throttle: whoever gives up does not wait for its own links") {
  LinkSpeeds speeds(2);
  speeds.set(Rank{0}, Rank{1}, kForever);
  const Outcomes outcomes = run_ranks(2, linked(speeds, 2), [&](World& world) -> Result<void> {
    return world.all().launch("gives up", [&](CoreContext& context) {
      const std::uint64_t word = 1;
      if (context.rank() == Rank{0}) {
        context.put(Rank{1}, Offset{8 * context.core().index()}, std::span{&word, 1});
        if (context.core() == Core{0}) throw std::runtime_error("core 0 has seen enough");
        context.quiet();
      }
      consume_token(context.wait(context.slots().flag().at(0, Rank{0}), Compare::at_least, 1));
    });
  });
  for (const auto& outcome : outcomes) CHECK(contains(text_of(outcome), "core 0 has seen enough"));
}
