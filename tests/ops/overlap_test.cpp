// Two groups of ranks with common members: the operators of both run mixed, each group with inputs of its own.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <vector>

#include "tests/ops/ep_fixture.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using test::EpCase;

namespace {

constexpr std::int32_t kOverlapRanks = 4;

/// The members and their inputs; step i takes case i % cases.
struct Group {
  std::vector<Rank> members;
  std::vector<EpCase> cases;
  std::vector<test::Expected> expected;
};

Group make_group(std::vector<Rank> members, std::uint64_t seed, std::size_t cases) {
  Group group{.members = std::move(members), .cases = {}, .expected = {}};
  std::mt19937_64 random(seed);
  while (group.cases.size() < cases) {
    std::vector<std::int64_t> tokens(group.members.size());
    for (std::int64_t& own : tokens) own = static_cast<std::int64_t>(random() % 5);
    group.cases.push_back(test::make_case(
        random(), {.experts = 6, .hidden = 8, .tokens = tokens, .dropped_percent = 10, .own_map = true}));
    group.expected.push_back(test::expect(group.cases.back()));
  }
  return group;
}

/// One rank's part in a group.
class Member {
 public:
  static Result<Member> join(runtime::World& world, int id, const Group& group) {
    Result<runtime::Communicator*> comm = world.communicator(runtime::CommunicatorId{id}, group.members);
    if (!comm) return comm.error();
    Result<test::Room> room = test::allocate_room(**comm, group.cases);
    if (!room) return room.error();
    return Member(**comm, group, *room);
  }

  /// The next operator of layout, notify, dispatch, combine, layout, ...
  Result<void> next() {
    const std::size_t step = calls_ / 4;
    const EpCase& input = group_->cases[step % group_->cases.size()];
    switch (calls_++ % 4) {
      case 0: tables_.emplace(input, comm_->rank()); return test::run_layout(*comm_, room_.counts[step % 2], *tables_);
      case 1: return test::run_notify(*comm_, input, *tables_);
      case 2: return test::run_dispatch(*comm_, input, room_, *tables_, outcome_);
      default: break;
    }
    Result<void> summed = test::run_combine(*comm_, input, room_, *tables_, outcome_);
    if (summed && found_.empty()) found_ = difference_of(step);
    return summed;
  }

  /// The first difference of all steps.
  [[nodiscard]] const std::string& found() const { return found_; }

 private:
  Member(runtime::Communicator& comm, const Group& group, const test::Room& room)
      : comm_(&comm), group_(&group), room_(room) {}

  [[nodiscard]] std::string difference_of(std::size_t step) const {
    const std::size_t which = step % group_->cases.size();
    const std::string text =
        test::difference(group_->cases[which], group_->expected[which], comm_->rank().value(), outcome_);
    return text.empty() ? text : fmt::format("step {}: {}", step, text);
  }

  runtime::Communicator* comm_;
  const Group* group_;
  test::Room room_;
  std::size_t calls_ = 0;
  std::optional<test::Tables> tables_;
  test::Outcome outcome_;
  std::string found_;
};

using Groups = std::array<Group, 2>;

/// In every round both groups do one step, in one of the 70 ways to mix twice four operators. The seed draws the same
/// one on all ranks: members of both groups that disagreed about the order would wait for each other for ever.
Result<std::string> run_rank(runtime::World& world, const Groups& groups, std::uint64_t seed, std::int64_t rounds) {
  std::array<std::optional<Member>, 2> parts;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<Rank>& members = groups[i].members;
    if (std::find(members.begin(), members.end(), world.rank()) == members.end()) continue;
    Result<Member> member = Member::join(world, static_cast<int>(i) + 1, groups[i]);
    if (!member) return member.error();
    parts[i] = *std::move(member);
  }
  std::mt19937_64 random(seed);
  std::array<std::size_t, 8> turns = {0, 0, 0, 0, 1, 1, 1, 1};
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::shuffle(turns.begin(), turns.end(), random);
    for (const std::size_t turn : turns) {
      if (!parts[turn]) continue;
      Result<void> done = parts[turn]->next();
      if (!done) return std::move(done).error().within(fmt::format("round {}", round));
    }
  }
  if (Result<void> met = world.all().barrier(); !met) return met.error();
  std::string found;
  for (const auto& part : parts) found += part ? part->found() : "";
  return found;
}

void check_mixed(const test::Setup& setup) {
  const std::uint64_t seed = test::seed_of_run();
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  // 16 and 13 cases: which two meet changes in every round.
  const Groups groups = {make_group({Rank{0}, Rank{1}, Rank{2}}, seed, 16),
                         make_group({Rank{2}, Rank{3}, Rank{1}}, seed + 1, 13)};
  runtime::Config config =
      test::config_for(setup, std::max(test::heap_for(groups[0].cases), test::heap_for(groups[1].cases)));
  config.communicators = 3;
  std::vector<std::string> found(kOverlapRanks, "not run");
  const auto body = [&](runtime::World& world) -> Result<void> {
    Result<std::string> own = run_rank(world, groups, seed, setup.steps);
    if (!own) return own.error();
    found[world.rank().index()] = *own;
    return {};
  };
  const Result<void> done = runtime::World::run_as_threads(kOverlapRanks, config, body, setup.decorate);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  for (const std::string& text : found) CHECK(text == "");
}

}  // namespace

TEST_CASE("operators of two overlapping communicators, mixed, for 1000 rounds") {
  check_mixed({.steps = 1000});
  check_mixed({.cores = 2, .views = false, .weak_seed = 1, .steps = 1000});
}

TEST_CASE("operators of two overlapping communicators, mixed, with pauses") {
  check_mixed({.cores = 2, .steps = 10, .decorate = test::pauses(test::seed_of_run())});
}
