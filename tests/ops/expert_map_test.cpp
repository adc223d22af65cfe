// Who owns which expert, and the caller's routing.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/masked_experts.hpp"
#include "ops/ep/routing.hpp"

using namespace shmoe;
using ops::ExpertMap;
using ops::Routing;

namespace {

std::vector<std::int32_t> counts_of(const ExpertMap& map) {
  std::vector<std::int32_t> counts;
  for (Rank rank{0}; rank.value() < map.ranks(); ++rank) {
    counts.push_back(static_cast<std::int32_t>(map.experts_of(rank).size()));
  }
  return counts;
}

}  // namespace

TEST_CASE("the even split is the published one where E is a multiple of R") {
  for (const std::int32_t ranks : {1, 2, 3, 8, 384}) {
    for (const std::int32_t per_rank : {1, 2, 5}) {
      const ExpertMap map = ExpertMap::even(ranks * per_rank, ranks);
      for (std::int32_t e = 0; e < map.experts(); ++e) {
        CHECK(map.owner(Expert{e}) == Rank{e / per_rank});
        CHECK(map.local_index(Expert{e}) == e % per_rank);
      }
    }
  }
}

TEST_CASE("the even split also takes other numbers") {
  CHECK(counts_of(ExpertMap::even(60, 8)) == std::vector<std::int32_t>{8, 8, 8, 8, 8, 8, 8, 4});
  CHECK(counts_of(ExpertMap::even(7, 4)) == std::vector<std::int32_t>{2, 2, 2, 1});
  CHECK(counts_of(ExpertMap::even(5, 4)) == std::vector<std::int32_t>{2, 2, 1, 0});
  CHECK(counts_of(ExpertMap::even(1, 3)) == std::vector<std::int32_t>{1, 0, 0});
  CHECK(counts_of(ExpertMap::even(std::numeric_limits<std::int16_t>::max(), 1)) == std::vector<std::int32_t>{32767});
  CHECK_THROWS_WITH_AS(ExpertMap::even(0, 1), doctest::Contains("0 experts on 1 ranks"), ContractViolation);
  CHECK_THROWS_WITH_AS(ExpertMap::even(1, 0), doctest::Contains("1 experts on 0 ranks"), ContractViolation);
}

TEST_CASE("an owner table may mix experts in any way") {
  const auto map = ExpertMap::owned_by({Rank{2}, Rank{0}, Rank{2}, Rank{0}, Rank{2}}, 3);
  REQUIRE(map);
  CHECK(counts_of(*map) == std::vector<std::int32_t>{2, 0, 3});
  const auto owned = map->experts_of(Rank{2});
  CHECK(std::vector<Expert>(owned.begin(), owned.end()) == std::vector<Expert>{Expert{0}, Expert{2}, Expert{4}});
  CHECK(map->local_index(Expert{3}) == 1);
  CHECK(map->local_index(Expert{4}) == 2);
}

TEST_CASE("an owner that is no rank is refused") {
  const auto high = ExpertMap::owned_by({Rank{0}, Rank{3}}, 3);
  REQUIRE_FALSE(high);
  CHECK(high.error().code == Errc::invalid_argument);
  CHECK(high.error().context == "expert 1 is owned by rank 3, and there are 3 ranks: give 0 to 2");
  CHECK_FALSE(ExpertMap::owned_by({Rank{-1}}, 3));
  CHECK_FALSE(ExpertMap::owned_by({}, 3));
}

TEST_CASE("equal maps have equal hashes, others differ") {
  CHECK(ExpertMap::even(6, 3).hash() ==
        ExpertMap::owned_by({Rank{0}, Rank{0}, Rank{1}, Rank{1}, Rank{2}, Rank{2}}, 3)->hash());
  CHECK(ExpertMap::even(6, 3).hash() !=
        ExpertMap::owned_by({Rank{0}, Rank{1}, Rank{0}, Rank{1}, Rank{2}, Rank{2}}, 3)->hash());
  CHECK(ExpertMap::even(6, 3).hash() != ExpertMap::even(7, 3).hash());
  CHECK(ExpertMap::even(3, 3).hash() != ExpertMap::even(3, 4).hash());
}

TEST_CASE("the int32 copy of the ids never turns a bad id into a good one") {
  const Routing routing(2, {0, 7, -1, (std::int64_t{1} << 32) + 3, std::numeric_limits<std::int64_t>::min(), 5});
  CHECK(routing.tokens() == 3);
  const auto narrow = routing.topk_idx_i32();
  CHECK(narrow[1] == 7);
  CHECK(narrow[2] == -1);
  CHECK(narrow[3] == std::numeric_limits<std::int32_t>::max());
  CHECK(narrow[4] == std::numeric_limits<std::int32_t>::min());
  CHECK(Routing(0, {}).tokens() == 0);
}

TEST_CASE("experts of ranks that are gone are masked, and ids stay") {
  const ExpertMap before = ExpertMap::even(8, 4);
  const std::vector<Rank> left{Rank{0}, Rank{2}, Rank{3}};
  const auto masked = ops::MaskedExperts::of(before, left);
  REQUIRE(masked);
  CHECK(masked->masked() == std::vector<Expert>{Expert{2}, Expert{3}});
  CHECK(masked->map().ranks() == 3);
  CHECK(masked->map().experts() == 8);
  const std::vector<int> owners{0, 0, 0, 0, 1, 1, 2, 2};
  for (std::size_t e = 0; e < owners.size(); ++e) CHECK(masked->map().owner(Expert{e}) == Rank{owners[e]});

  Routing kept(1, {});
  masked->apply(Routing(2, {0, 2, 3, 7, -1, 4, 8, -2}, {1, 2, 3, 4, 5, 6, 7, 8}), kept);
  CHECK(std::ranges::equal(kept.topk_idx(), std::vector<std::int64_t>{0, -1, -1, 7, -1, 4, 8, -2}));
  CHECK(std::ranges::equal(kept.weights(), std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  masked->apply(kept, kept);
  CHECK(std::ranges::equal(kept.topk_idx(), std::vector<std::int64_t>{0, -1, -1, 7, -1, 4, 8, -2}));
}

TEST_CASE("who is left must be ranks of the map, each once") {
  const ExpertMap before = ExpertMap::even(4, 2);
  const auto refusal = [&](const std::vector<Rank>& left) {
    const auto masked = ops::MaskedExperts::of(before, left);
    return masked ? "" : masked.error().context;
  };
  CHECK(refusal({Rank{1}, Rank{0}}).empty());
  CHECK(refusal({Rank{2}}) == "rank 2 is listed as left: it is none of the 2 ranks of the expert map, or listed twice");
  CHECK(refusal({Rank{1}, Rank{1}}).starts_with("rank 1 is listed as left"));
  CHECK(refusal({}) == "an owner table of 4 experts on 0 ranks: give at least one of each");
}
