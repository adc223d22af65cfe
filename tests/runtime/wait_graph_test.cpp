// Who waits for whom, and who is the root of it.

#include "runtime/diagnosis/wait_graph.hpp"

#include <doctest/doctest.h>

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

/// Four ranks of one core. Slot s of rank d is written by rank s.
class Graphed {
 public:
  Graphed() : plan_(4) {
    plan_.declare({.name = "flag", .base = Offset{0}, .sources = 4});
    for (Rank rank{0}; rank.value() < 4; ++rank) cores_.push_back({.rank = rank, .wait = {}});
  }
  void runs(int rank, const char* op, std::uint64_t round) {
    CoreSight& core = cores_[static_cast<std::size_t>(rank)];
    core.busy = true;
    core.op = op;
    core.round = Round{round};
  }
  void waits(int rank, int writer, const char* op, std::uint64_t round) {
    runs(rank, op, round);
    cores_[static_cast<std::size_t>(rank)].wait =
        WaitSight{.where = Rank{rank}, .slots = {Slot{writer}}, .compare = Compare::at_least, .value = 5};
  }
  WaitGraph graph(std::vector<bool> ended = std::vector<bool>(4), std::uint64_t word = 4) {
    sight_ = {.slots = &plan_,
              .ranks = 4,
              .cores = cores_,
              .word = [word](Rank, Slot) { return word; },
              .looked_at = [](Rank, Slot) { return true; }};
    return WaitGraph({&sight_, 1}, ended);
  }

  [[nodiscard]] const Sight& sight() const { return sight_; }

 private:
  shmem::SlotPlan plan_;
  std::vector<CoreSight> cores_;
  Sight sight_;
};

using Ranks = std::vector<Rank>;

}  // namespace

TEST_CASE("wait graph: the root is the rank that runs and has the most behind it") {
  Graphed job;
  job.waits(0, 1, "dispatch", 7);
  job.waits(1, 3, "dispatch", 7);
  job.waits(2, 3, "dispatch", 7);
  job.runs(3, "combine", 6);
  const WaitGraph graph = job.graph();
  CHECK(graph.waits_for(Rank{0}) == Ranks{Rank{1}});
  CHECK(graph.waits_for(Rank{2}) == Ranks{Rank{3}});
  CHECK(graph.waits_for(Rank{3}).empty());
  CHECK(graph.standing(Rank{0}) == Standing::waits);
  CHECK(graph.standing(Rank{3}) == Standing::goes_on);
  const auto root = graph.root(job.sight());
  REQUIRE(root.has_value());
  CHECK(root->rank == Rank{3});
  CHECK(root->behind == Ranks{Rank{0}, Rank{1}, Rank{2}});
  const std::vector<RankGroup> groups = graph.groups(job.sight());
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].ranks == Ranks{Rank{0}, Rank{1}, Rank{2}});
  CHECK(groups[0].standing == Standing::waits);
  CHECK(groups[0].op == "dispatch");
  CHECK(groups[0].round == Round{7});
  CHECK(groups[1].ranks == Ranks{Rank{3}});
  CHECK(groups[1].op == "combine");
}

TEST_CASE("wait graph: a wait that is over holds nobody up; a ring has no root") {
  Graphed job;
  for (int rank = 0; rank < 4; ++rank) job.waits(rank, (rank + 1) % 4, "ring", 1);
  CHECK(!job.graph().root(job.sight()).has_value());
  const WaitGraph over = job.graph(std::vector<bool>(4), 5);
  CHECK(over.standing(Rank{2}) == Standing::goes_on);
  CHECK(!over.root(job.sight()).has_value());
}

TEST_CASE("wait graph: ranks between operators and ranks that have ended can be the root") {
  Graphed job;
  job.waits(0, 2, "meet", 3);
  job.waits(1, 2, "meet", 3);
  CHECK(job.graph().standing(Rank{2}) == Standing::outside);
  REQUIRE(job.graph().root(job.sight()).has_value());
  CHECK(job.graph().root(job.sight())->rank == Rank{2});
  std::vector<bool> ended(4);
  ended[2] = true;
  const WaitGraph graph = job.graph(ended);
  CHECK(graph.standing(Rank{2}) == Standing::ended);
  REQUIRE(graph.root(job.sight()).has_value());
  CHECK(graph.root(job.sight())->rank == Rank{2});
  CHECK(graph.root(job.sight())->behind == Ranks{Rank{0}, Rank{1}});
  CHECK(graph.groups(job.sight()).size() == 3);
}

TEST_CASE("wait graph: through two communicators the root is who runs in either, and a group says where it waits") {
  Graphed first;
  first.waits(0, 1, "batch 1", 2);
  static_cast<void>(first.graph());
  Graphed second;
  second.waits(1, 2, "batch 2", 3);
  second.runs(2, "batch 2", 3);
  static_cast<void>(second.graph());
  const std::vector<Sight> sights{first.sight(), second.sight()};
  const WaitGraph graph(sights, std::vector<bool>(4));
  CHECK(graph.standing(Rank{1}) == Standing::waits);
  REQUIRE(graph.root(sights[0]).has_value());
  CHECK(graph.root(sights[0])->rank == Rank{2});
  CHECK(graph.root(sights[0])->behind == Ranks{Rank{0}});
  CHECK(graph.root(sights[1])->behind == Ranks{Rank{1}});
  const std::vector<RankGroup> groups = graph.groups(sights[0]);
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].in == sights.data());
  CHECK(groups[1].in == sights.data() + 1);
  CHECK(groups[1].op == "batch 2");
  CHECK(groups[1].round == Round{3});
  CHECK(groups[3].in == nullptr);
}
