// The decision tree, and what the lengths of shards say of links.

#include <doctest/doctest.h>

#include "ops/detour/choose.hpp"

using namespace shmoe;
using ops::choose;
using ops::DetourGroup;
using ops::Element;
using ops::Need;
using runtime::LinkSpeeds;

namespace {

const Rank kPairOfFour[] = {Rank{0}, Rank{1}};

LinkSpeeds links_of(const char* text) {
  Result<LinkSpeeds> links = LinkSpeeds::parse(text, "links");
  REQUIRE_MESSAGE(links, to_string(links.error()));
  return *std::move(links);
}

bool says(const ops::Choice& choice, std::string_view part) { return choice.why.find(part) != std::string_view::npos; }

}  // namespace

TEST_CASE("choose: a detour needs ranks that lend their memory, and less than 1 MB") {
  for (const auto& [need, op] :
       {std::pair{Need::all_to_all, "all_to_all_detour"}, std::pair{Need::reduce_scatter, "reduce_scatter_detour"}}) {
    CHECK(choose(need, {.ranks = 4, .communicating = 2, .bytes = 999'999}).op == op);
    CHECK(choose(need, {.ranks = 4, .communicating = 2, .bytes = 999'999}).way == ops::Way::detour);
    CHECK(choose(need, {.ranks = 4, .communicating = 2, .bytes = 1'000'000}).way == ops::Way::direct);
    CHECK(choose(need, {.ranks = 4, .communicating = 4, .bytes = 10}).way == ops::Way::direct);
    CHECK(says(choose(need, {.ranks = 4, .communicating = 2, .bytes = 999'999}), "the others lend their memory"));
    CHECK(says(choose(need, {.ranks = 4, .communicating = 2, .bytes = 1'000'000}), "communicating ranks alone"));
    CHECK(says(choose(need, {.ranks = 4, .communicating = 4, .bytes = 10}), "nobody is left"));
  }
}

TEST_CASE("choose: between domains, and normal or low latency") {
  CHECK(choose(Need::attention_to_experts, {}).op == "a2e");
  CHECK(choose(Need::experts_to_attention, {}).op == "e2a");
  CHECK(choose(Need::dispatch, {.tokens = 0}).op == "dispatch_low_latency");
  CHECK(choose(Need::dispatch, {.tokens = 128}).op == "dispatch_low_latency");
  CHECK(choose(Need::dispatch, {.tokens = 129}).op == "dispatch_normal");
}

TEST_CASE("predicted: equal links carry a chunk in D + 1 parts at the same time") {
  const LinkSpeeds links = links_of("ranks 4\n0 1 1\n0 2 1\n0 3 1\n1 0 1\n1 2 1\n1 3 1\n");
  const DetourGroup group(kPairOfFour, 4);
  // 600 elements of 4 bytes: chunks of 300, shards of 100, at a megabyte a second.
  CHECK(ops::predicted_seconds(links, group, 600, Element::fp32) == doctest::Approx(400e-6));
  CHECK(ops::predicted_gain(links, group, 600, Element::fp32) == doctest::Approx(3));
  CHECK(ops::predicted_gain(LinkSpeeds(4), group, 600, Element::fp32) == 1);
  CHECK(ops::predicted_gain(links, DetourGroup({}, 4), 0, Element::fp32) == 1);
}

TEST_CASE("predicted: the slowest link counts, and a link carries all that a rank puts on it") {
  const DetourGroup pair(kPairOfFour, 4);
  // The direct link is ten times slower: its third of the chunk is what takes long.
  const LinkSpeeds slow = links_of("ranks 4\n0 1 1\n1 0 1\n0 2 10\n0 3 10\n1 2 10\n1 3 10\n");
  CHECK(ops::predicted_gain(slow, pair, 600, Element::fp32) == doctest::Approx(3));
  // The way over rank 3 is slower than the direct one.
  const LinkSpeeds worse = links_of("ranks 4\n0 1 10\n1 0 10\n0 3 1\n1 3 1\n0 2 10\n1 2 10\n");
  CHECK(ops::predicted_gain(worse, pair, 600, Element::fp32) == doctest::Approx(0.3));
  // Rank 0 sends a shard for each of two receivers over the one lender: 2 x 100 of 300 elements in halves.
  const Rank three[] = {Rank{0}, Rank{1}, Rank{2}};
  const LinkSpeeds lender = links_of("ranks 4\n0 3 1\n");
  CHECK(ops::predicted_seconds(lender, DetourGroup(three, 4), 600, Element::fp32) == doctest::Approx(800e-6));
}

TEST_CASE("missing link: a detour needs those to the lenders too, and an empty shard none") {
  const LinkSpeeds links = links_of("ranks 4\n0 3 none\n1 0 none\n");
  const DetourGroup pair(kPairOfFour, 4);
  const auto missing = [&](std::int64_t elements, ops::Way way) {
    const auto link = ops::missing_link(links, pair, elements, way);
    return link ? std::pair{link->from.value(), link->to.value()} : std::pair{-1, -1};
  };
  CHECK(missing(600, ops::Way::detour) == std::pair{0, 3});
  CHECK(missing(600, ops::Way::direct) == std::pair{1, 0});
  // Chunks of one element are all shard 0.
  CHECK(missing(2, ops::Way::detour) == std::pair{1, 0});
  CHECK(missing(0, ops::Way::detour) == std::pair{-1, -1});
}

TEST_CASE("predicted: a link that does not exist cannot be used") {
  const LinkSpeeds links = links_of("ranks 4\n0 2 none\n");
  CHECK_THROWS_AS(static_cast<void>(ops::predicted_seconds(links, DetourGroup(kPairOfFour, 4), 600, Element::fp32)),
                  ContractViolation);
}
