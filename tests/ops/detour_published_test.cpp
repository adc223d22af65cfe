// The published detour collectives: where their slots lie, what they count, and what they cannot do is refused.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ops/detour/published.hpp"
#include "ops/detour/window.hpp"
#include "runtime/world.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;
using ops::Element;
using ops::PublishedSlots;
using runtime::test::contains;

namespace {

constexpr Bytes kDefaultWindow{204 * shmem::kMiB};

runtime::Config published_config(std::int32_t cores, Bytes window = kDefaultWindow) {
  runtime::Config config = runtime::test::small_config(cores, kFaithful202607);
  config.ipc_data = window;
  config.communicators = 1;
  config.declare_slots = ops::declare_published_detours;
  return config;
}

std::vector<Rank> published_members(std::initializer_list<int> values) {
  std::vector<Rank> ranks;
  for (const int value : values) ranks.emplace_back(value);
  return ranks;
}

}  // namespace

TEST_CASE("published slots: the offsets of the worked examples") {
  const PublishedSlots slots(kDefaultWindow, 4);
  CHECK(slots.size() == Bytes{13'369'344});
  CHECK(slots.half() == Bytes{6'684'672});
  CHECK(slots.slot(Rank{0}, Rank{0}, 1) == Bytes{6'684'672});
  CHECK(slots.slot(Rank{0}, Rank{0}, 2) == Bytes{0});
  CHECK(slots.slot(Rank{0}, Rank{1}, 1) == Bytes{20'054'016});
  CHECK(slots.slot(Rank{0}, Rank{1}, 2) == Bytes{13'369'344});
  CHECK(slots.slot(Rank{1}, Rank{0}, 1) == Bytes{60'162'048});
  CHECK(slots.slot(Rank{1}, Rank{0}, 2) == Bytes{53'477'376});
  CHECK(slots.slot(Rank{1}, Rank{1}, 1) == Bytes{73'531'392});
  CHECK(slots.slot(Rank{1}, Rank{1}, 2) == Bytes{66'846'720});
  CHECK(slots.flag(Rank{1}, Rank{0}, 1) == Bytes{60'162'080});
  CHECK(slots.data(Rank{1}, Rank{0}, 1) == Bytes{62'259'200});
  CHECK(slots.data(Rank{0}, Rank{1}, 1) == Bytes{22'151'168});
  CHECK(slots.data(Rank{0}, Rank{0}, 1) == Bytes{8'781'824});
  CHECK(slots.progress(Rank{0}, 1) == Bytes{6'686'336});
  CHECK(slots.progress(Rank{1}, 1) == Bytes{73'533'088});
  CHECK(slots.progress(Rank{3}, 1) == Bytes{207'226'592});
  CHECK(slots.flag(Rank{3}, Rank{1}, 1) == Bytes{180'486'240});
  CHECK(slots.data(Rank{3}, Rank{3}, 1) == Bytes{209'321'984});
}

TEST_CASE("published slots: what a window holds, and what does not fit") {
  const auto size = [](std::int32_t ranks) { return PublishedSlots(kDefaultWindow, ranks).size().value(); };
  CHECK(size(2) == 53'477'376);
  CHECK(size(3) == 23'767'722);
  CHECK(size(5) == 8'556'380);
  CHECK(size(6) == 5'941'930);
  CHECK(size(7) == 4'365'500);
  CHECK(size(8) == 3'342'336);
  CHECK(size(16) == 835'584);
  CHECK(size(32) == 208'896);
  CHECK(PublishedSlots(kDefaultWindow, 2).fault(Bytes{24'641'536}).empty());
  CHECK(
      contains(PublishedSlots(kDefaultWindow, 2).fault(Bytes{24'641'537}),
               "2 x 2 slots of 53477376 bytes, in halves of 26738688; 2097152 of flags and 24641537 bytes of data need "
               "26738689"));
  CHECK(PublishedSlots(kDefaultWindow, 4).fault(Bytes{4'587'520}).empty());
  CHECK(contains(PublishedSlots(kDefaultWindow, 4).fault(Bytes{4'587'521}),
                 "4 x 4 slots of 13369344 bytes, in halves of 6684672; 2097152 of flags and 4587521 bytes of data need "
                 "6684673"));
  CHECK(contains(PublishedSlots(kDefaultWindow, 3).fault(Bytes{0}),
                 "3 x 3 slots of 23767722 bytes, in halves of 11883861, no multiple of 64"));
  CHECK(contains(PublishedSlots(kDefaultWindow, 8).fault(Bytes{0}), "8 x 8 slots of 3342336 bytes"));
}

TEST_CASE("published magic: counts from 1, and starts again behind 2^30 - 1, both of them odd") {
  CHECK(ops::published_magic(Round{0}) == 1);
  CHECK(ops::published_magic(Round{1}) == 2);
  CHECK(ops::published_magic(Round{(1U << 30) - 2}) == (1U << 30) - 1);
  CHECK(ops::published_magic(Round{(1U << 30) - 1}) == 1);
}

TEST_CASE("published detours: what they cannot do is refused before anything is sent") {
  const auto error_of = [](std::int32_t ranks, bool reduces, ops::DetourShape shape) {
    const auto body = [&](runtime::World& world) -> Result<void> {
      const std::vector<std::byte> x(static_cast<std::size_t>(shape.elements) * 4);
      std::vector<std::byte> y(x.size());
      const std::size_t size = static_cast<std::size_t>(shape.elements * bytes_of_element(shape.type));
      const auto input = std::span{x}.first(size);
      if (!reduces)
        return ops::all_to_all_detour(world.all(), {.shape = shape, .x = input, .y = std::span{y}.first(size)});
      return ops::reduce_scatter_detour(world.all(), {.shape = shape, .x = input, .y = std::span{y}.first(size / 2)});
    };
    return runtime::test::text_of(runtime::test::run_ranks(ranks, published_config(1), body)[0]);
  };
  const std::vector<Rank> two = published_members({0, 1});
  CHECK(contains(error_of(3, false, {.members = two, .type = Element::fp16, .elements = 6}), "no multiple of 64"));
  CHECK(contains(error_of(8, false, {.members = two, .type = Element::fp16, .elements = 16}),
                 "they would reach into the next slot"));
  CHECK(contains(error_of(2, true, {.members = two, .type = Element::fp32, .elements = 4}),
                 "takes fp16 alone, not fp32: use the profile safe"));
  CHECK(contains(error_of(4, true, {.members = two, .type = Element::fp16, .elements = 22}),
                 "22 elements on 4 ranks: the published host takes at most 16 ranks and whole shares"));
}
