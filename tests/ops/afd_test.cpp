// a2e and e2a in the profile safe: every byte against the sequential reference.
// SHMOE_TEST_SEED=n draws the last of the random cases; SHMOE_TEST_CASE=n repeats case n alone.

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "tests/ops/afd_case.hpp"
#include "tests/ops/refusal.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using test::AfdSetup;
using test::AfdSizes;
using test::make_afd_case;
using test::run_afd;

namespace {

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

AfdSizes drawn_sizes(std::mt19937_64& random) {
  AfdSizes sizes;
  sizes.experts = static_cast<std::int32_t>(1 + random() % 4);
  const std::uint64_t attention = 1 + random() % 5;
  sizes.hidden = pick<std::int64_t>(random, {1, 2, 3, 7, 17, 33, 64, 127, 1000});
  sizes.topk = static_cast<std::int32_t>(1 + random() % 5);
  sizes.dtype = pick(random, {DType::bf16, DType::fp16, DType::fp32});
  sizes.quant = pick(random, {ops::Quant::none, ops::Quant::int8});
  sizes.gate = random() % 3 != 0;
  sizes.inactive_percent = pick(random, {0, 0, 30, 100});
  sizes.dropped_percent = pick(random, {0, 20, 100});
  sizes.summed = random() % 2 == 0;
  for (std::uint64_t a = 0; a < attention; ++a) {
    sizes.batches.push_back(random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % 21));
  }
  sizes.max_batch = random() % 2 == 0 ? 0 : 20 + static_cast<std::int64_t>(random() % 9);
  return sizes;
}

void run_drawn(std::uint64_t number, const runtime::FabricDecorator& decorate = {}) {
  std::mt19937_64 random(number);
  const test::AfdCase input = make_afd_case(number, drawn_sizes(random));
  const AfdSetup setup{.cores = static_cast<std::int32_t>(1 + random() % 5),
                       .views = random() % 2 == 0,
                       .weak_seed = random() % 3 == 0 ? number + 1 : 0,
                       .calls = 3,
                       .only_a2e = random() % 4 == 0,
                       .decorate = decorate};
  INFO("SHMOE_TEST_CASE=" << number << " cores " << setup.cores << " views " << setup.views << " weak "
                          << setup.weak_seed);
  CHECK(run_afd(input, setup) == "");
}

std::vector<std::uint64_t> cases_to_run(std::uint64_t fixed, int drawn) {
  if (const char* one = std::getenv("SHMOE_TEST_CASE")) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> cases;
  for (std::uint64_t number = 1; number <= fixed; ++number) cases.push_back(number);
  std::mt19937_64 random(test::seed_of_run());
  for (int i = 0; i < drawn; ++i) cases.push_back(random() >> 1);
  MESSAGE("SHMOE_TEST_SEED=" << test::seed_of_run());
  return cases;
}

}  // namespace

TEST_CASE("who belongs to whom: r mod E, and as many as the published ratio says") {
  for (std::int32_t experts = 1; experts <= 6; ++experts) {
    for (std::int32_t attention = 1; attention <= 14; ++attention) {
      const ops::Assignment ranks = ops::Assignment::of(experts, attention).value();
      std::int32_t served = 0;
      for (Rank expert{0}; expert < Rank{experts}; ++expert) {
        CHECK(ranks.is_expert(expert));
        for (std::int32_t i = 0; i < ranks.served(expert); ++i, ++served) {
          const Rank own = ranks.attention_rank(expert, i);
          CHECK(own < Rank{ranks.ranks()});
          CHECK(!ranks.is_expert(own));
          CHECK(ranks.expert_of(own) == expert);
          CHECK(ranks.index_of(own) == i);
        }
        if (attention < experts) continue;
        std::int32_t ratio = (attention + experts - 1) / experts;
        const bool fewer =
            experts != 1 && attention > experts && attention % experts != 0 && expert.value() >= attention % experts;
        if (fewer) --ratio;
        CHECK(ranks.served(expert) == ratio);
      }
      CHECK(served == attention);
    }
  }
}

TEST_CASE("T83: no expert rank or no attention rank is refused; fewer cores than parts to send play several") {
  test::check_told(ops::Assignment::of(0, 1), Errc::invalid_argument, "0 expert ranks and 1 attention ranks");
  test::check_told(ops::Assignment::of(1, 0), Errc::invalid_argument, "1 expert ranks and 0 attention ranks");
  for (const std::int32_t cores : {1, 2, 3, 4}) {
    CHECK(run_afd(make_afd_case(83, {.experts = 2, .batches = {4, 0, 7}, .inactive_percent = 20}), {.cores = cores}) ==
          "");
  }
}

TEST_CASE("different batches, none at all, and more expert ranks than attention ranks") {
  CHECK(run_afd(make_afd_case(1, {.experts = 1, .batches = {3}})) == "");
  CHECK(run_afd(make_afd_case(2, {.experts = 2, .batches = {4, 0, 7, 1, 5}})) == "");
  CHECK(run_afd(make_afd_case(3, {.experts = 3, .batches = {0, 0, 0, 0}}), {.cores = 1}) == "");
  CHECK(run_afd(make_afd_case(4, {.experts = 4, .batches = {6, 2}}), {.cores = 3}) == "");
  CHECK(run_afd(make_afd_case(5, {.experts = 3, .batches = {5, 6, 7, 8, 9, 10, 11}, .inactive_percent = 40})) == "");
}

TEST_CASE("one answer a row comes back as it is, to the bit: also -0") {
  AfdSizes sizes{.experts = 1, .batches = {2, 3}, .hidden = 4, .dtype = DType::fp32, .summed = false};
  CHECK(run_afd(make_afd_case(1, sizes), {.calls = 5}) == "");
  sizes.gate = false;
  CHECK(run_afd(make_afd_case(2, sizes), {.cores = 5, .views = false}) == "");
}

TEST_CASE("many a2e in a row, with nothing in between, neither overtake nor overwrite each other") {
  const test::AfdCase input = make_afd_case(9, {.experts = 2, .batches = {5, 3, 4}, .quant = ops::Quant::int8});
  CHECK(run_afd(input, {.cores = 3, .calls = 40, .only_a2e = true}) == "");
  CHECK(run_afd(input, {.cores = 2, .views = false, .weak_seed = 4, .calls = 20, .only_a2e = true}) == "");
}

TEST_CASE("a2e and e2a: rounds across 2^32 and 2^40") {
  const test::AfdCase input = make_afd_case(61, {.experts = 2, .batches = {4, 0, 7}, .inactive_percent = 20});
  for (const std::uint64_t first : runtime::test::kLateRounds) {
    const auto jump = [first](runtime::Communicator& comm) { runtime::test::jump_to(comm, first); };
    for (const runtime::FabricDecorator& decorate : test::without_and_with_pauses()) {
      CHECK(run_afd(input, {.cores = 3, .calls = 5, .before = jump, .decorate = decorate}) == "");
    }
    CHECK(run_afd(input, {.cores = 2, .calls = 10, .only_a2e = true, .before = jump}) == "");
  }
}

TEST_CASE("random ratios, batches and types agree with the reference in every byte") {
  for (const std::uint64_t number : cases_to_run(80, 20)) run_drawn(number);
}

TEST_CASE("random cases with pauses before every signal and every wait") {
  for (const std::uint64_t number : cases_to_run(5, 5)) run_drawn(number, test::pauses(test::seed_of_run()));
}
