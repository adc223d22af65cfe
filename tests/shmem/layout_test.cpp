#include "shmem/layout.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "shmem/signal.hpp"

using namespace shmoe;
using namespace shmoe::shmem;

namespace {

constexpr std::array<std::int32_t, 24> kRanks{1,  2,  3,  5,  6,  7,   8,   12,  13,  15,  16,  20,
                                              24, 31, 32, 63, 64, 127, 160, 255, 383, 384, 768, 1024};
constexpr std::array<std::int32_t, 9> kSlots{1, 2, 3, 6, 7, 24, 39, 47, 48};

BlockShape shape_of(std::int32_t ranks, std::int32_t slots, std::int32_t experts = 1024) {
  return {.ranks = ranks,
          .cores = slots,
          .slots = slots,
          .experts = experts,
          .ipc_data = Bytes{3 * kMiB},
          .heap = Bytes{5 * kMiB + 1}};
}

template <class Check>
void over_grid(Check check) {
  for (const std::int32_t ranks : kRanks) {
    for (const std::int32_t slots : kSlots) {
      for (const std::int32_t experts : {1, 60, 383, 1024, 65536}) {
        CAPTURE(ranks);
        CAPTURE(slots);
        CAPTURE(experts);
        check(shape_of(ranks, slots, experts));
      }
    }
  }
}

/// Names of the regions that the low-latency region lies over.
std::vector<std::string> under_low_latency(const BlockMap& map) {
  std::vector<std::string> names;
  for (const auto& [name, region] : map.regions()) {
    if (std::string(name) != "low-latency region" && region.overlaps(map.low_latency)) names.emplace_back(name);
  }
  return names;
}

bool inside(const Region& inner, Offset first, Offset last) { return inner.at >= first && inner.end() <= last; }

}  // namespace

TEST_CASE("layout: the published offsets") {
  for (const Profile& profile : kProfiles) {
    const auto map = [&](std::int32_t ranks, std::int32_t slots) { return block_map(profile, shape_of(ranks, slots)); };
    CHECK(map(2, 6).user_data.at == Offset{0});
    CHECK(map(2, 6).user_data.size == Bytes{100 * 1024});
    CHECK(map(2, 6).magic.at == Offset{0x19000});
    CHECK(map(2, 6).magic_of(Core{0}) == Offset{100 * 1024});
    CHECK(map(2, 6).magic_of(Core{47}) == Offset{100 * 1024 + 512 * 47});
    CHECK(map(2, 6).magic.size == Bytes{24 * 1024});
    CHECK(map(2, 6).barrier.at == Offset{0x1F000});
    CHECK(map(2, 6).barrier.size == Bytes{2 * 2 * 32});
    CHECK(map(2, 6).flags.at == Offset{0x1F080});
    CHECK(map(8, 1).flags.at == Offset{0x1F200});
    CHECK(map(384, 48).flags.at == Offset{0x25000});
    // 124 KB + 64 R + 64 R S: the published minimum, 1300 KB for the largest.
    CHECK(map(384, 48).flags.end() == Offset{1300 * 1024});
  }
}

TEST_CASE("layout: the worked example of two ranks with six slots each") {
  const BlockMap map = block_map(kFaithful202607, shape_of(2, 6));
  const SlotPlan plan = SlotPlan::of_block(map);
  const auto barrier = [&](std::uint64_t buffer, std::int32_t source) {
    return plan.offset_of(plan.barrier().at(buffer, Rank{source}));
  };
  CHECK(barrier(0, 0) == Offset{0x1F000});
  CHECK(barrier(0, 1) == Offset{0x1F020});
  CHECK(barrier(1, 0) == Offset{0x1F040});
  CHECK(barrier(1, 1) == Offset{0x1F060});
  CHECK(plan.offset_of(plan.flag().at(0, Rank{0}, 0)) == Offset{0x1F080});
  CHECK(plan.offset_of(plan.flag().at(1, Rank{0}, 0)) == Offset{0x1F200});
  CHECK(plan.offset_of(plan.flag().at(0, Rank{1}, 5)) == Offset{0x1F080 + 32 * (6 + 5)});
  CHECK(published_word(0, 1) == 0x0000000000000001U);
  CHECK(published_word(1, 1) == 0x0000000100000001U);
  CHECK(published_word(1, 2) == 0x0000000100000002U);
  CHECK(published_word(2, 1) == 0x0000000200000001U);
}

TEST_CASE("layout: the second barrier buffer of 2, 8 and 384 ranks") {
  for (const auto& [ranks, second] : {std::pair{2, 0x1F040U}, std::pair{8, 0x1F100U}, std::pair{384, 0x22000U}}) {
    const SlotPlan plan = SlotPlan::of_block(block_map(kSafe, shape_of(ranks, 48)));
    CHECK(plan.offset_of(plan.barrier().at(1, Rank{0})) == Offset{second});
  }
}

TEST_CASE("layout: in safe all regions are disjoint, in order and within the block") {
  over_grid([](const BlockShape& shape) {
    const BlockMap map = block_map(kSafe, shape);
    CHECK(map.disjoint());
    Offset last{0};
    for (const BlockMap::Named& entry : map.regions()) {
      const Region& region = entry.region;
      CAPTURE(std::string(entry.name));
      CHECK(region.at >= last);
      CHECK(region.at.value() % 32 == 0);
      last = region.end();
    }
    CHECK(last - Offset{0} == map.size);
    CHECK(under_low_latency(map).empty());
  });
}

TEST_CASE("layout: the published profiles overlap as published and nowhere else") {
  over_grid([](const BlockShape& shape) {
    for (const Profile& profile : {kFaithful202607, kFaithful202608}) {
      BlockMap map = block_map(profile, shape);
      CHECK(map.low_latency.at == Offset{0});
      CHECK(!map.disjoint());
      const auto names = under_low_latency(map);
      CHECK(names == std::vector<std::string>{"user data", "magic slots", "barrier ping-pong", "flag ping-pong"});
      // With the low-latency region out of the way nothing else overlaps.
      map.low_latency = {Offset{0}, Bytes{0}};
      CHECK(map.disjoint());
    }
  });
}

TEST_CASE("layout: a combine flag of the low-latency path meets a magic slot where s = 16 c") {
  const BlockMap map = block_map(kFaithful202607, shape_of(384, 48));
  for (std::int32_t source = 0; source < 384; ++source) {
    const Offset flag{100 * kKiB + 32 * static_cast<std::uint64_t>(source)};
    for (std::int32_t core = 0; core < 48; ++core) CHECK((flag == map.magic_of(Core{core})) == (source == 16 * core));
  }
  const Region dispatch{Offset{164 * kKiB}, Bytes{32 * 384}};
  CHECK(inside(dispatch, map.flags.at, map.flags.end()));
  CHECK(dispatch.end() <= map.low_latency.end());
}

TEST_CASE("layout: the low-latency region holds what the published kernels use") {
  over_grid([](const BlockShape& shape) {
    const std::uint64_t bytes = low_latency_bytes(shape).value();
    CHECK(bytes >= 128 * static_cast<std::uint64_t>(shape.cores) + 4 * static_cast<std::uint64_t>(shape.experts));
    CHECK(bytes >= 164 * kKiB + 32 * static_cast<std::uint64_t>(shape.ranks));
  });
}

TEST_CASE("layout: blocks, windows and heaps are multiples of 2 MiB, and no less than asked for") {
  over_grid([](const BlockShape& shape) {
    for (const Profile& profile : kProfiles) {
      const BlockMap map = block_map(profile, shape);
      CHECK(map.size.value() % kPageGranule == 0);
      CHECK(map.heap.at.value() % kPageGranule == 0);
      CHECK(map.ipc_flags.at.value() % kPageGranule == 0);
      CHECK(map.heap.size == Bytes{6 * kMiB});
      CHECK(map.ipc_data.size == Bytes{4 * kMiB});
    }
  });
  CHECK(block_map(kSafe, {}).heap.size == Bytes{0});
}

TEST_CASE("layout: heaps around and beyond 4 GiB keep 64-bit offsets") {
  for (const std::uint64_t heap : {(std::uint64_t{1} << 31) + 1, (std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 32,
                                   (std::uint64_t{1} << 32) + 1, std::uint64_t{1} << 44}) {
    BlockShape shape = shape_of(384, 48);
    shape.heap = Bytes{heap};
    shape.ipc_data = Bytes{(std::uint64_t{1} << 32) + 5};
    const BlockMap map = block_map(kSafe, shape);
    CHECK(map.disjoint());
    CHECK(map.heap.size.value() == round_up(heap, kPageGranule));
    CHECK(map.heap.at.value() > std::uint64_t{1} << 32);
    CHECK(map.size.value() == map.heap.at.value() + map.heap.size.value());
  }
}

TEST_CASE("layout: cards and texts of both buffers lie inside their regions") {
  const BlockMap map = block_map(kSafe, shape_of(7, 5));
  CHECK(map.card(0) == map.cards.at);
  CHECK(map.card(1) + Bytes{kCardBytes} == map.cards.end());
  CHECK(map.error(1) + Bytes{kErrorTextBytes} == map.error_text.end());
  CHECK(map.abort_text() + Bytes{kErrorTextBytes} == map.abort.end());
}

TEST_CASE("layout: a roll call for each communicator, a bit for each rank") {
  for (const std::int32_t ranks : {1, 256, 257}) {
    BlockShape shape = shape_of(ranks, 1);
    shape.communicators = 5;
    const BlockMap map = block_map(kSafe, shape);
    CHECK(map.roll_call(0) == map.roll_calls.at);
    CHECK(map.roll_call(5) == map.roll_calls.end());
    CHECK(map.roll_call(1) - map.roll_call(0) == Bytes{ranks > 256 ? 96U : 64U});
    CHECK(map.disjoint());
  }
}

TEST_CASE("a roll call: the first one that asks is chosen, and what it noted is read") {
  constexpr std::int32_t kMany = 300;
  alignas(64) std::array<std::byte, RollCall::size(kMany).value()> place{};
  RollCall call(place.data(), kMany);
  CHECK_FALSE(call.chosen());
  CHECK(call.gone().empty());
  const std::vector<Rank> gone{Rank{0}, Rank{63}, Rank{64}, Rank{299}};
  call.note(gone);
  CHECK(call.gone() == gone);
  CHECK(call.choose(Rank{7}) == Rank{7});
  CHECK(call.choose(Rank{0}) == Rank{7});
  CHECK(call.chosen() == Rank{7});
}

TEST_CASE("profiles are found by their names") {
  for (const Profile& profile : kProfiles) CHECK(find_profile(name_of(profile.id)) == profile);
  CHECK(!find_profile("unsafe"));
  CHECK(!find_profile(""));
}
