// The detour collectives against their definition, to the bit, on ranks that are threads.

#include <bit>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/detour/reference.hpp"
#include "ops/detour/window.hpp"
#include "runtime/world.hpp"
#include "shmem/number.hpp"
#include "tests/ops/refusal.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using ops::DetourGroup;
using ops::Element;
using ops::Reduction;
using Tensor = std::vector<std::byte>;

namespace {

enum class Collective : std::uint8_t { all_to_all, reduce_scatter };

struct DetourCase {
  Collective collective = Collective::all_to_all;
  std::int32_t ranks = 4;
  std::int32_t cores = 2;
  std::vector<Rank> members = {};
  Element type = Element::fp32;
  Reduction reduction = Reduction::sum;
  std::int64_t elements = 22;
  bool symmetric = false;
  bool views = true;
  std::uint64_t weak_seed = 0;
  int calls = 2;
  std::uint64_t first_round = 0;  // not 0: goes on from there
  // In place of drawn ones: of each member, and what must come of them at each position.
  std::function<Tensor(Rank)> input = {};
  std::vector<Tensor> answers = {};
  std::uint64_t window = 1U << 20;
};

std::string text_of(const DetourCase& c) {
  std::string members;
  for (const Rank rank : c.members) members += fmt::format(" {}", rank);
  return fmt::format("{} ranks {} cores {} members{} type {} op {} L {} symmetric {} views {} weak {} calls {}",
                     c.collective == Collective::all_to_all ? "all_to_all" : "reduce_scatter", c.ranks, c.cores,
                     members, name_of(c.type), name_of(c.reduction), c.elements, c.symmetric, c.views, c.weak_seed,
                     c.calls);
}

runtime::Config detour_config(const DetourCase& c) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = c.cores;
  config.views = c.views;
  config.weak_seed = c.weak_seed;
  config.heap = Bytes{16U << 20};
  config.ipc_data = Bytes{c.window};
  config.communicators = 1;
  config.wait_limit = std::chrono::seconds(60);
  return config;
}

/// Any pattern of bits for integers; numbers of every size and sign, but no NaN, for the others.
Tensor input_of(const DetourCase& c, Rank rank, int call) {
  if (c.input) return c.input(rank);
  const auto element = static_cast<std::size_t>(bytes_of_element(c.type));
  Tensor x(static_cast<std::size_t>(c.elements) * element);
  std::mt19937_64 random(rank.index() * 1000 + static_cast<std::size_t>(call));
  for (std::size_t i = 0; i < x.size(); i += element) {
    auto bits = static_cast<std::uint32_t>(random());
    if (c.type == Element::fp32) bits = (bits & 0x807F'FFFFU) | ((120 + bits % 16) << 23);
    if (c.type == Element::bf16) bits = (bits & 0x807FU) | ((120 + bits % 16) << 7);
    if (c.type == Element::fp16) bits = (bits & 0x83FFU) | ((10 + bits % 8) << 10);
    std::memcpy(x.data() + i, &bits, element);
  }
  return x;
}

/// Whole numbers as any type.
Tensor tensor_of(Element type, const std::vector<int>& values) {
  const auto element = static_cast<std::size_t>(bytes_of_element(type));
  Tensor tensor(values.size() * element);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<float>(values[i]);
    auto bits = std::bit_cast<std::uint32_t>(number);
    if (type == Element::int32) bits = static_cast<std::uint32_t>(values[i]);
    if (type == Element::fp16) bits = shmem::float_to_fp16(number);
    if (type == Element::bf16) bits = shmem::float_to_bf16(number);
    std::memcpy(tensor.data() + i * element, &bits, element);
  }
  return tensor;
}

std::vector<Rank> members_of(const DetourCase& c) { return DetourGroup(c.members, c.ranks).members(); }

std::vector<Tensor> answers_of(const DetourCase& c, int call) {
  if (!c.answers.empty()) return c.answers;
  std::vector<Tensor> inputs;
  for (const Rank rank : members_of(c)) inputs.push_back(input_of(c, rank, call));
  return c.collective == Collective::all_to_all ? ops::all_to_all_reference(c.type, inputs)
                                                : ops::reduce_scatter_reference(c.type, c.reduction, inputs);
}

/// What a rank passes besides its tensors.
struct DetourPlace {
  shmem::Region window;
  Offset tensor;  // of y_at, or of x_at
};

Result<void> call_all_to_all(runtime::Communicator& comm, const DetourCase& c, const DetourPlace& place,
                             const Tensor& x, Tensor& y) {
  ops::AllToAllArgs args{
      .shape = {.members = c.members, .type = c.type, .elements = c.elements, .window = place.window}, .x = x};
  if (c.symmetric) args.y_at = place.tensor;
  if (!c.symmetric) args.y = y;
  Result<void> done = ops::all_to_all_detour(comm, args);
  if (done && c.symmetric) {
    const auto seen = comm.local<std::byte>(place.tensor, y.size());
    y.assign(seen.begin(), seen.end());
  }
  return done;
}

Result<void> call_reduce_scatter(runtime::Communicator& comm, const DetourCase& c, const DetourPlace& place, Tensor& x,
                                 Tensor& y) {
  ops::ReduceScatterArgs args{
      .shape = {.members = c.members, .type = c.type, .elements = c.elements, .window = place.window},
      .reduction = c.reduction,
      .y = y};
  if (c.symmetric) {
    args.x_at = place.tensor;
    std::ranges::copy(x, comm.local<std::byte>(place.tensor, x.size()).begin());
  } else {
    args.x = x;
  }
  Result<void> done = ops::reduce_scatter_detour(comm, args);
  // Whoever has returned may change x.
  if (done && c.symmetric) std::ranges::fill(comm.local<std::byte>(place.tensor, x.size()), std::byte{0x5A});
  return done;
}

/// One call on one rank: the answer, or why there is none. Ranks that only lend memory pass nothing.
Result<Tensor> answer_of(runtime::Communicator& comm, const DetourCase& c, const DetourPlace& place, int call) {
  const DetourGroup group(c.members, c.ranks);
  const auto position = group.position_of(comm.rank());
  Tensor x = position ? input_of(c, comm.rank(), call) : Tensor{};
  Tensor y;
  if (position) {
    const std::int64_t chunk = group.chunk(c.elements, *position).size() * bytes_of_element(c.type);
    const std::int64_t chunks = c.collective == Collective::all_to_all ? group.size() : 1;
    y.assign(static_cast<std::size_t>(chunk * chunks), std::byte{0xEE});
  }
  if (!position && c.symmetric) x.assign(1, std::byte{0});
  Result<void> done = c.collective == Collective::all_to_all ? call_all_to_all(comm, c, place, x, y)
                                                             : call_reduce_scatter(comm, c, place, x, y);
  if (!done) return std::move(done).error();
  return y;
}

Result<DetourPlace> place_of(runtime::Communicator& comm, const DetourCase& c) {
  const Result<shmem::Region> window = ops::allocate_window(comm);
  if (!window) return window.error();
  const auto size = static_cast<std::uint64_t>((c.elements + 2 * c.ranks) * bytes_of_element(c.type));
  const Result<Offset> tensor = comm.allocate(Bytes{size});
  if (!tensor) return tensor.error();
  return DetourPlace{*window, *tensor};
}

/// What went wrong, or nothing. Calls follow each other without anything in between.
std::string run_case(const DetourCase& c, const runtime::FabricDecorator& decorate = {}) {
  std::vector<std::string> faults(static_cast<std::size_t>(c.ranks));
  std::vector<std::vector<Tensor>> answers;
  for (int call = 0; call < c.calls; ++call) answers.push_back(answers_of(c, call));
  const DetourGroup group(c.members, c.ranks);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<DetourPlace> place = place_of(comm, c);
    if (!place) return place.error();
    if (c.first_round != 0) runtime::test::jump_to(comm, c.first_round);
    const auto position = group.position_of(comm.rank());
    for (int call = 0; call < c.calls; ++call) {
      const Result<Tensor> y = answer_of(comm, c, *place, call);
      if (!y) return y.error();
      if (position && *y != answers[static_cast<std::size_t>(call)][static_cast<std::size_t>(*position)]) {
        faults[comm.rank().index()] += fmt::format("rank {} call {}: wrong. ", comm.rank(), call);
      }
    }
    return comm.barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(c.ranks, detour_config(c), body, decorate);
  std::string all = done ? "" : to_string(done.error());
  for (const std::string& fault : faults) all += fault;
  return all;
}

void check_case(const DetourCase& c, const runtime::FabricDecorator& decorate = {}) {
  CAPTURE(text_of(c));
  CHECK(run_case(c, decorate) == "");
}

std::vector<Rank> ranks_of(std::initializer_list<int> values) {
  std::vector<Rank> ranks;
  for (const int value : values) ranks.emplace_back(value);
  return ranks;
}

constexpr Collective kBoth[] = {Collective::all_to_all, Collective::reduce_scatter};
constexpr Element kTypes[] = {Element::fp16, Element::bf16, Element::fp32, Element::int32};
constexpr Reduction kReductions[] = {Reduction::sum, Reduction::max, Reduction::min};

/// How each rank's call ends, and that the next one works.
std::vector<std::string> errors_of(const DetourCase& c, const std::function<void(Rank, DetourCase&)>& change) {
  std::vector<std::string> errors(static_cast<std::size_t>(c.ranks));
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<DetourPlace> place = place_of(comm, c);
    if (!place) return place.error();
    DetourCase mine = c;
    change(comm.rank(), mine);
    const DetourPlace given{{place->window.at, Bytes{mine.window}}, place->tensor};
    Result<void> refused;
    Tensor x(static_cast<std::size_t>(c.elements * bytes_of_element(c.type)));
    Tensor y(x.size());
    refused = ops::all_to_all_detour(
        comm, {.shape = {.members = mine.members, .type = mine.type, .elements = mine.elements, .window = given.window},
               .x = x,
               .y = y});
    if (!refused) errors[comm.rank().index()] = to_string(refused.error());
    const Result<Tensor> good = answer_of(comm, c, *place, 0);
    return good ? Result<void>{} : Result<void>{good.error()};
  };
  const Result<void> done = runtime::World::run_as_threads(c.ranks, detour_config(c), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  return errors;
}

void check_refused(const DetourCase& c, const std::function<void(Rank, DetourCase&)>& change, std::string_view part) {
  for (const std::string& error : errors_of(c, change)) {
    CAPTURE(error);
    CHECK(error.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("detour: bitwise as defined, any group of any ranks, in any order") {
  for (const Collective collective : kBoth) {
    for (const bool symmetric : {false, true}) {
      for (const std::vector<Rank>& members : {ranks_of({0, 1}), ranks_of({1, 0}), ranks_of({3}), ranks_of({0, 1, 3}),
                                               ranks_of({2, 0, 3}), ranks_of({3, 2, 1, 0}), std::vector<Rank>{}}) {
        check_case({.collective = collective, .members = members, .symmetric = symmetric});
      }
    }
  }
}

TEST_CASE("detour: every type and reduction, to the bit, without a lender, with one and with two") {
  for (const Element type : kTypes) {
    for (const bool symmetric : {false, true}) {
      for (const std::vector<Rank>& members : {std::vector<Rank>{}, ranks_of({0, 1, 3}), ranks_of({0, 2})}) {
        check_case({.members = members, .type = type, .elements = 101, .symmetric = symmetric});
        for (const Reduction reduction : kReductions) {
          check_case({.collective = Collective::reduce_scatter,
                      .members = members,
                      .type = type,
                      .reduction = reduction,
                      .elements = 4001,
                      .symmetric = symmetric});
        }
      }
    }
  }
}

TEST_CASE("detour: small whole numbers through a lender, by every type and reduction, number by number") {
  DetourCase c{.members = ranks_of({3, 0, 2}), .elements = 15};  // rank 1 lends
  const auto multiples = [&c](Rank rank) {                       // of 2, -1 and 1
    std::vector<int> values;
    for (int i = -7; i <= 7; ++i) values.push_back((rank.value() - 1) * i);
    return tensor_of(c.type, values);
  };
  c.input = multiples;
  for (const bool symmetric : {false, true}) {
    c.symmetric = symmetric;
    for (const Element type : kTypes) {
      c.type = type;
      c.collective = Collective::all_to_all;
      c.answers = {tensor_of(type, {-14, -12, -10, -8, -6, 7, 6, 5, 4, 3, -7, -6, -5, -4, -3}),
                   tensor_of(type, {-4, -2, 0, 2, 4, 2, 1, 0, -1, -2, -2, -1, 0, 1, 2}),
                   tensor_of(type, {6, 8, 10, 12, 14, -3, -4, -5, -6, -7, 3, 4, 5, 6, 7})};
      check_case(c);
      c.collective = Collective::reduce_scatter;
      c.reduction = Reduction::sum;
      c.answers = {tensor_of(type, {-14, -12, -10, -8, -6}), tensor_of(type, {-4, -2, 0, 2, 4}),
                   tensor_of(type, {6, 8, 10, 12, 14})};
      check_case(c);
      c.reduction = Reduction::max;
      c.answers = {tensor_of(type, {7, 6, 5, 4, 3}), tensor_of(type, {2, 1, 0, 2, 4}),
                   tensor_of(type, {6, 8, 10, 12, 14})};
      check_case(c);
      c.reduction = Reduction::min;
      c.answers = {tensor_of(type, {-14, -12, -10, -8, -6}), tensor_of(type, {-4, -2, 0, -1, -2}),
                   tensor_of(type, {-3, -4, -5, -6, -7})};
      check_case(c);
    }
  }
}

TEST_CASE("detour: rounds across 2^32 and 2^40") {
  for (const Collective collective : kBoth) {
    for (const bool symmetric : {false, true}) {
      for (const std::uint64_t first : runtime::test::kLateRounds) {
        const DetourCase c{.collective = collective,
                           .members = ranks_of({0, 2}),
                           .symmetric = symmetric,
                           .calls = 8,
                           .first_round = first};
        check_case(c);
        check_case(c, test::pauses_of_run());
      }
    }
  }
}

TEST_CASE("detour: no element, fewer than ranks, fewer than shards, and more than a core carries at a time") {
  for (const Collective collective : kBoth) {
    for (const std::int64_t elements : {0, 1, 2, 3, 7, 40'000}) {
      for (const std::int32_t cores : {1, 3}) {
        for (const bool symmetric : {false, true}) {
          DetourCase c{.collective = collective, .cores = cores, .members = ranks_of({0, 1, 3}), .type = Element::fp16};
          c.elements = elements;
          c.symmetric = symmetric;
          check_case(c);
          c.views = false;
          c.members.clear();
          check_case(c);
        }
      }
    }
  }
}

TEST_CASE("detour: call after call, with puts that land late and pauses before every signal and wait") {
  const std::uint64_t seed = test::seed_of_run();
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  for (const Collective collective : kBoth) {
    for (const bool symmetric : {false, true}) {
      DetourCase c{.collective = collective, .members = ranks_of({0, 2}), .symmetric = symmetric, .calls = 10};
      c.weak_seed = seed | 1;
      check_case(c);
      c.members.clear();
      check_case(c);
      c.weak_seed = 0;
      check_case(c, test::pauses(seed));
    }
  }
}

TEST_CASE("detour: random ranks, groups, types and sizes") {
  const std::uint64_t seed = test::seed_of_run();
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int run = 0; run < 80; ++run) {
    DetourCase c;
    c.collective = kBoth[from(0, 1)];
    c.ranks = static_cast<std::int32_t>(from(1, 7));
    c.cores = static_cast<std::int32_t>(from(1, 4));
    for (Rank rank{0}; rank.value() < c.ranks; ++rank) c.members.push_back(rank);
    std::shuffle(c.members.begin(), c.members.end(), random);
    c.members.resize(static_cast<std::size_t>(from(1, c.ranks)));
    c.type = kTypes[from(0, 3)];
    c.reduction = kReductions[from(0, 2)];
    c.elements = from(0, 1) == 0 ? from(0, 50) : from(0, 20'000);
    c.symmetric = from(0, 1) == 0;
    c.views = from(0, 1) == 0;
    c.weak_seed = from(0, 3) == 0 ? random() | 1 : 0;
    check_case(c);
  }
}

// As H3 has it: two buffers are not enough for this without the barrier.
TEST_CASE("detour: the group changes with every call") {
  std::vector<int> wrong(3);
  const DetourCase c{.ranks = 3};
  const auto body = [&](runtime::World& world) -> Result<void> {
    const Result<DetourPlace> place = place_of(world.all(), c);
    if (!place) return place.error();
    for (int call = 0; call < 30; ++call) {
      DetourCase now = c;
      now.members = call % 3 == 1 ? ranks_of({0, 2}) : ranks_of({0, 1});
      const Result<Tensor> y = answer_of(world.all(), now, *place, call);
      if (!y) return y.error();
      const auto position = DetourGroup(now.members, c.ranks).position_of(world.rank());
      if (position && *y != answers_of(now, call)[static_cast<std::size_t>(*position)]) ++wrong[world.rank().index()];
    }
    return world.all().barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(3, detour_config(c), body, test::pauses(7));
  REQUIRE_MESSAGE(done, to_string(done.error()));
  for (const int count : wrong) CHECK(count == 0);
}

TEST_CASE("detour: what ranks do not agree on, and what is wrong, is refused on all, and the next call works") {
  const DetourCase c{.members = ranks_of({0, 1, 2, 3}), .elements = 24};
  const auto on_rank_1 = [](auto set) {
    return [set](Rank rank, DetourCase& mine) {
      if (rank == Rank{1}) set(mine);
    };
  };
  check_refused(c, on_rank_1([](DetourCase& mine) {
                  mine.members = ranks_of({0, 1, 2});
                }),
                "group size is 3 on rank 1 and 4 on rank 0");
  check_refused(c, on_rank_1([](DetourCase& mine) {
                  mine.members = ranks_of({0, 1, 3, 2});
                }),
                "group[2] is rank 3 on rank 1 and rank 2 on rank 0: every rank must pass the same");
  check_refused(c, on_rank_1([](DetourCase& mine) {
                  mine.members = ranks_of({0, 1, 4});
                }),
                "rank 1: the group names rank 4; there are ranks 0 to 3");
  check_refused(c, on_rank_1([](DetourCase& mine) {
                  mine.members = ranks_of({0, 1, 0});
                }),
                "rank 1: the group names rank 0 twice");
  check_refused(c, on_rank_1([](DetourCase& mine) { mine.elements = 23; }),
                "rank 1: x has 96 bytes; 23 elements of fp32 are 92");
  check_refused(c, on_rank_1([](DetourCase& mine) { mine.elements = -1; }), "rank 1: -1 elements of x: 0 to ");
  check_refused(c, on_rank_1([](DetourCase& mine) { mine.type = Element::bf16; }),
                "rank 1: x has 96 bytes; 24 elements of bf16 are 48; .elements counts the whole x");
}

TEST_CASE("detour: a window that is too small is refused on all, with both sizes") {
  const DetourCase c{.members = ranks_of({0, 1, 2, 3}), .elements = 24};
  // 16 pairs of 6 fp32: a line of 64 bytes each.
  check_refused(
      c, [](Rank, DetourCase& mine) { mine.window = 1023; },
      "all_to_all_detour: rank 0: 16 slots of 64 bytes are 1024 bytes, the ipc window has 1023: set SHMOE_BUFFSIZE to "
      "1 or "
      "more "
      "(MiB) on every rank");
  const Result<void> without = runtime::World::run_as_threads(4, detour_config(c), [&](runtime::World& world) {
    std::vector<std::byte> x(96);
    std::vector<std::byte> y(96);
    return ops::all_to_all_detour(world.all(), {.shape = {.elements = 24}, .x = x, .y = y});
  });
  test::check_told(
      without, Errc::invalid_argument,
      "all_to_all_detour: rank 0: shards wait in a window of 1024 bytes, and the call has none: pass .window "
      "= *ops::allocate_window(comm)");
  DetourCase exact = c;
  exact.window = 1024;
  CHECK(run_case(exact) == "");
  DetourCase none = c;
  none.window = 0;
  CHECK(run_case(none).find("the ipc window has 0 bytes: set SHMOE_BUFFSIZE to 1 or more (MiB)") != std::string::npos);
  DetourCase large = c;
  large.window = std::uint64_t{17} << 20;
  CHECK(run_case(large).find("an ipc window of 17825792 bytes: lower SHMOE_BUFFSIZE or raise SHMOE_HEAP") !=
        std::string::npos);
}
