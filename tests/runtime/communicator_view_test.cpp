// Which communicators a job has, as the control segments of its ranks tell.

#include "runtime/diagnosis/communicator_view.hpp"

#include <array>

#include <doctest/doctest.h>

#include "shmem/thread_memory.hpp"

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

std::vector<Rank> ranks_of(std::initializer_list<int> values) {
  std::vector<Rank> ranks;
  for (const int value : values) ranks.emplace_back(value);
  return ranks;
}

/// Control segments of four ranks with three communicators.
class Controls {
 public:
  void make(int rank, int id, const std::vector<Rank>& members) {
    std::byte* first = memory_.at(static_cast<std::size_t>(rank));
    std::byte* block = first + map_.size().value() * static_cast<std::uint64_t>(id);
    for (std::size_t i = 0; i < members.size(); ++i) map_.member(block, Rank{i}).store(members[i].value());
    map_.membership(block).size.store(static_cast<std::uint32_t>(members.size()));
    map_.membership(first).made.fetch_or(std::uint64_t{1} << id);
  }
  [[nodiscard]] std::vector<Group> groups() const {
    return groups_in(map_, kBlocks, std::array{memory_.at(0), memory_.at(1), memory_.at(2), memory_.at(3)});
  }

  void claim(int rank, int id) {
    map_.membership(memory_.at(static_cast<std::size_t>(rank))).made.fetch_or(std::uint64_t{1} << id);
  }

 private:
  static constexpr int kBlocks = 3;
  shmem::ControlMap map_{.cores = 1, .ledger_entries = 4, .ranks = 4};
  shmem::ThreadMemory memory_ = *shmem::ThreadMemory::allocate(4, map_.size() * kBlocks);
};

}  // namespace

TEST_CASE("groups: each communicator once, also where not all members have made it yet") {
  Controls controls;
  CHECK(controls.groups().empty());
  for (int rank = 0; rank < 4; ++rank) controls.make(rank, 0, ranks_of({0, 1, 2, 3}));
  controls.make(3, 2, ranks_of({3, 1}));
  const std::vector<Group> groups = controls.groups();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].id == CommunicatorId{0});
  CHECK(groups[0].members == ranks_of({0, 1, 2, 3}));
  CHECK(groups[0].scope().empty());
  CHECK(groups[1].id == CommunicatorId{2});
  CHECK(groups[1].members == ranks_of({3, 1}));
  CHECK(groups[1].scope() == "communicator 2 of world ranks 3 1");
  CHECK(groups[0].agreed);
  CHECK(groups[1].agreed);
}

TEST_CASE("groups: what a rank claims beyond its blocks is not looked for") {
  Controls controls;
  controls.make(1, 2, ranks_of({1, 3}));
  for (const int beyond : {3, 40, 63}) controls.claim(1, beyond);
  REQUIRE(controls.groups().size() == 1);
  CHECK(controls.groups()[0].id == CommunicatorId{2});
}

TEST_CASE("groups: one number may be that of two, unless they share a member: then they do not agree") {
  Controls controls;
  for (const int rank : {0, 3}) controls.make(rank, 1, ranks_of({0, 3}));
  for (const int rank : {1, 2}) controls.make(rank, 1, ranks_of({1, 2}));
  std::vector<Group> groups = controls.groups();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].members == ranks_of({0, 3}));
  CHECK(groups[1].members == ranks_of({1, 2}));
  CHECK(groups[0].agreed);
  CHECK(groups[1].agreed);
  controls.make(2, 1, ranks_of({2, 0}));
  groups = controls.groups();
  REQUIRE(groups.size() == 3);
  for (const Group& group : groups) CHECK(!group.agreed);
}

TEST_CASE("groups: what is no rank makes no group") {
  Controls controls;
  controls.make(0, 1, ranks_of({0, 4}));
  controls.make(1, 1, {});
  CHECK(controls.groups().empty());
}

TEST_CASE("groups: many members in order are told as a range") {
  Group group{.id = CommunicatorId{1}, .members = {}};
  for (int rank = 4; rank < 40; ++rank) group.members.emplace_back(rank);
  CHECK(group.scope() == "communicator 1 of world ranks 4-39");
  std::swap(group.members[0], group.members[1]);
  CHECK(group.scope().starts_with("communicator 1 of world ranks 5 4 6 7 "));
}
