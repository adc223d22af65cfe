// Differential tests: random shapes and routing against the sequential reference.
// SHMOE_TEST_SEED=n draws the last of them; SHMOE_TEST_SHAPE=n repeats shape n alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/ops/ep_fixture.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using test::EpCase;
using test::Setup;
using test::Shape;

namespace {

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

constexpr std::int64_t kElements = 400'000;  // of all rows of a case: keeps a case in tens of milliseconds

Shape random_shape(std::mt19937_64& random) {
  Shape shape;
  const auto ranks = static_cast<std::int32_t>(1 + random() % 8);
  shape.experts = pick(random, {1, 2, 3, 5, 7, 8, 13, 16, 31, 60, 64});
  shape.topk = static_cast<std::int32_t>(1 + random() % static_cast<std::uint64_t>(std::min(shape.experts, 16)));
  shape.hidden = pick<std::int64_t>(random, {1, 2, 3, 7, 8, 17, 33, 64, 100, 127, 1024, 4100});
  shape.dtype = pick(random, {DType::bf16, DType::fp16, DType::fp32});
  const std::int64_t limit = std::clamp<std::int64_t>(kElements / (shape.hidden * shape.topk * ranks), 1, 300);
  shape.tokens.clear();
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    shape.tokens.push_back(
        random() % 5 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit + 1)));
  }
  shape.dropped_percent = pick(random, {0, 0, 10, 60, 100});
  shape.weights = random() % 4 != 0;
  shape.own_map = random() % 3 == 0;
  shape.quant = pick(random, {ops::Quant::none, ops::Quant::int8});
  shape.alignment = pick<std::int64_t>(random, {1, 1, 2, 7, 16});
  shape.group_list = pick(random, {ops::GroupList::counts, ops::GroupList::cumulative});
  shape.gradients = random() % 2 == 0;
  return shape;
}

void run_shape(std::uint64_t number, const runtime::FabricDecorator& decorate = {}) {
  std::mt19937_64 random(number);
  const EpCase input = test::make_case(number, random_shape(random));
  const Setup setup{.cores = static_cast<std::int32_t>(1 + random() % 8),
                    .views = random() % 2 == 0,
                    .weak_seed = random() % 3 == 0 ? number + 1 : 0,
                    .decorate = decorate};
  INFO("SHMOE_TEST_SHAPE=" << number << " cores " << setup.cores << " views " << setup.views << " weak "
                           << setup.weak_seed);
  CHECK(test::run_case(input, setup) == "");
}

/// The shape asked for, else `fixed` from 1 on and `drawn` of the seed of this run.
std::vector<std::uint64_t> shapes_to_run(std::uint64_t fixed, int drawn) {
  if (const char* one = std::getenv("SHMOE_TEST_SHAPE")) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> shapes;
  for (std::uint64_t number = 1; number <= fixed; ++number) shapes.push_back(number);
  std::mt19937_64 random(test::seed_of_run());
  for (int i = 0; i < drawn; ++i) shapes.push_back(random() >> 1);
  MESSAGE("SHMOE_TEST_SEED=" << test::seed_of_run());
  return shapes;
}

}  // namespace

TEST_CASE("random shapes agree with the reference in every table, row and bit") {
  for (const std::uint64_t shape : shapes_to_run(100, 20)) run_shape(shape);
}

TEST_CASE("random shapes with pauses before every signal and every wait") {
  for (const std::uint64_t shape : shapes_to_run(5, 5)) run_shape(shape, test::pauses(test::seed_of_run()));
}

TEST_CASE("results do not depend on the number of cores, on views, or on when puts land") {
  const EpCase input = test::make_case(
      7, {.experts = 13, .topk = 5, .hidden = 130, .tokens = {40, 0, 77, 3}, .dropped_percent = 5, .own_map = true});
  const auto first = test::outcomes_of(input, {.cores = 1});
  REQUIRE_MESSAGE(first, to_string(first.error()));
  const Setup others[] = {{.cores = 4}, {.cores = 7, .views = false}, {.cores = 3, .views = false, .weak_seed = 99}};
  for (const Setup& setup : others) {
    const auto next = test::outcomes_of(input, setup);
    REQUIRE_MESSAGE(next, to_string(next.error()));
    for (std::size_t rank = 0; rank < first->size(); ++rank) {
      CHECK((*next)[rank].combined == (*first)[rank].combined);
      CHECK((*next)[rank].received == (*first)[rank].received);
      CHECK((*next)[rank].notify.put_offset == (*first)[rank].notify.put_offset);
      CHECK((*next)[rank].layout.send_token_idx == (*first)[rank].layout.send_token_idx);
    }
  }
}

TEST_CASE("several steps of different shapes share one set of buffers") {
  std::vector<EpCase> cases;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    cases.push_back(test::make_case(seed, {.experts = 10,
                                           .topk = 3,
                                           .hidden = static_cast<std::int64_t>(32 << seed),
                                           .dtype = seed % 2 == 0 ? DType::bf16 : DType::fp32,
                                           .tokens = {9, static_cast<std::int64_t>(seed), 20}}));
  }
  CHECK(test::run_cases(cases, {.cores = 2, .steps = 40}) == "");
  CHECK(test::run_cases(cases, {.cores = 3, .views = false, .weak_seed = 5, .steps = 40}) == "");
}

TEST_CASE("the published profiles run the same kernels") {
  // One rank: with more, their barrier may overrun.
  const EpCase input = test::make_case(3, {.experts = 8, .topk = 2, .hidden = 64, .tokens = {8}});
  CHECK(test::run_case(input, {.cores = 3, .profile = kFaithful202607, .steps = 3}) == "");
  CHECK(test::run_case(input, {.cores = 3, .profile = kFaithful202608, .steps = 3}) == "");
}
