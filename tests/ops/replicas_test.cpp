// Redundant experts: the map alone, and the operators on what it gives.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/ep/replicas.hpp"
#include "tests/ops/ep_fixture.hpp"

using namespace shmoe;
using ops::ReplicaMap;
using ops::Routing;

namespace {

using Ids = std::vector<std::int64_t>;

/// Logical 0 has two copies, 1 one, 2 three.
ReplicaMap small_map() { return std::move(ReplicaMap::of({{0, 3}, {1}, {5, 2, 4}})).value(); }

bool is_copy(const ReplicaMap& map, std::int64_t logical, std::int64_t physical) {
  const auto copies = map.replicas_of(logical);
  return std::find(copies.begin(), copies.end(), physical) != copies.end();
}

std::string refusal(const std::vector<Ids>& replicas) {
  const auto map = ReplicaMap::of(replicas);
  return map ? "" : map.error().context;
}

}  // namespace

TEST_CASE("a replica map knows the copies of each expert") {
  const ReplicaMap map = small_map();
  CHECK(map.logical() == 3);
  CHECK(map.physical() == 6);
  CHECK(std::ranges::equal(map.replicas_of(2), Ids{5, 2, 4}));
  CHECK(refusal({}) == "a replica map without experts");
  CHECK(refusal({{0}, {}}) == "logical expert 1 has no copy");
  CHECK(refusal({{0}, {0}}) == "physical expert 0 of a replica map: 2 copies are 0 .. 1, each once");
  CHECK(refusal({{0}, {2}}) == "physical expert 2 of a replica map: 2 copies are 0 .. 1, each once");
  CHECK(refusal({{-1}}) == "physical expert -1 of a replica map: 1 copies are 0 .. 0, each once");
  CHECK_THROWS_AS((void)map.replicas_of(3), ContractViolation);
}

TEST_CASE("the copy depends on rank and pair alone, and each pattern of pairs is spread evenly") {
  const ReplicaMap map = std::move(ReplicaMap::of({{0, 1, 2, 3, 4, 5, 6}})).value();
  for (const std::size_t step : {1U, 2U, 6U, 7U, 8U, 64U}) {
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      std::vector<int> uses(7);
      for (std::size_t i = 0; i < 700; ++i) {
        const std::int64_t copy = map.physical_of(0, Rank{rank}, i * step);
        REQUIRE(map.physical_of(0, Rank{rank}, i * step) == copy);
        ++uses.at(static_cast<std::size_t>(copy));
      }
      CAPTURE(step);
      CAPTURE(rank);
      CHECK(*std::ranges::min_element(uses) >= 95);
      CHECK(*std::ranges::max_element(uses) <= 105);
    }
  }
}

TEST_CASE("ids that are no routed expert: dropped pairs stay, shared experts move behind the copies, others stay bad") {
  const ReplicaMap map = small_map();
  CHECK(map.physical_of(-1, Rank{0}, 0) == -1);
  CHECK(map.physical_of(-7, Rank{0}, 0) == -7);
  CHECK(map.physical_of(3, Rank{0}, 0) == 6);
  CHECK(map.physical_of(4, Rank{2}, 9) == 7);
  CHECK(map.physical_of(std::numeric_limits<std::int64_t>::max(), Rank{0}, 0) ==
        std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("a routing of physical experts keeps its weights, and may be filled again") {
  const ReplicaMap map = small_map();
  const Routing logical(3, {0, 2, -1, 1, 2, 0}, {.1F, .2F, .3F, .4F, .5F, .6F});
  Routing physical(1, {});
  for (int i = 0; i < 2; ++i) {
    map.apply(logical, Rank{1}, physical);
    CHECK(physical.topk() == 3);
    CHECK(physical.tokens() == 2);
    CHECK(std::ranges::equal(physical.weights(), logical.weights()));
    CHECK(std::ranges::equal(physical.topk_idx(), physical.topk_idx_i32()));
    CHECK(is_copy(map, 0, physical.topk_idx()[0]));
    CHECK(is_copy(map, 2, physical.topk_idx()[1]));
    CHECK(physical.topk_idx()[2] == -1);
    CHECK(physical.topk_idx()[3] == 1);
  }
  physical.assign(2, Ids{5, -1, 3, std::int64_t{1} << 40});
  CHECK(physical.tokens() == 2);
  CHECK(physical.weights().empty());
  CHECK(std::ranges::equal(physical.topk_idx_i32(), std::vector{5, -1, 3, std::numeric_limits<std::int32_t>::max()}));
}

TEST_CASE("T17: the last of K+1 columns is a shared expert, whose id lies behind the replica table") {
  // Logical 0 .. 7, of which 0 has three copies and 5 two; expert 8 is shared.
  const ReplicaMap map = std::move(ReplicaMap::of({{0, 8, 9}, {1}, {2}, {3}, {4}, {5, 10}, {6}, {7}})).value();
  constexpr std::int32_t kTopk = 3;
  const auto logical_of = [](std::int64_t rank, std::int64_t token, std::int64_t k) {
    return k == kTopk ? 8 : (rank + token * 5 + k * k) % 8;
  };
  const test::EpCase input = test::make_case(
      17, {.experts = 12, .topk = kTopk + 1}, [&](std::int64_t rank, std::int64_t token, std::int64_t k) {
        const std::int64_t id = logical_of(rank, token, k);
        const std::int64_t physical =
            map.physical_of(id, Rank{rank}, static_cast<std::size_t>(token * (kTopk + 1) + k));
        if (k == kTopk) {
          CHECK(physical == 11);
        } else {
          CHECK(is_copy(map, id, physical));
        }
        return physical;
      });
  for (const std::int32_t cores : {1, 3}) CHECK(test::run_case(input, {.cores = cores}) == "");
  const auto outcomes = test::outcomes_of(input, {});
  REQUIRE_MESSAGE(outcomes, to_string(outcomes.error()));
  CHECK((*outcomes)[3].notify.recv_tokens_per_expert.back() == 20);  // every token of every rank
}
