#include "shmem/heap.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace shmoe;
using shmoe::shmem::Heap;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // {offset, size}

std::uint64_t take(Heap& heap, std::uint64_t size, std::uint64_t alignment = 64) {
  const auto offset = heap.allocate(Bytes{size}, Bytes{alignment});
  REQUIRE_MESSAGE(offset.has_value(), to_string(offset.error()));
  return offset->value();
}

void release(Heap& heap, std::uint64_t offset) { REQUIRE(heap.free(Offset{offset}).has_value()); }

Errc refusal(const Result<Offset>& result) { return result ? Errc::ok : result.error().code; }

Ranges ranges_of(const Heap& heap, bool live) {
  Ranges found;
  heap.for_each_block([&](const Heap::Block& block) {
    if (block.live == live) found.emplace_back(block.offset.value(), block.size.value());
  });
  return found;
}

Ranges free_ranges(const Heap& heap) { return ranges_of(heap, false); }

/// Blocks tile the heap, no two free ranges touch, and all counters are what the blocks add up to.
bool consistent(const Heap& heap, std::uint64_t begin) {
  std::uint64_t end = begin;
  std::uint64_t free = 0;
  std::uint64_t used = 0;
  std::uint64_t largest = 0;
  bool ok = true;
  bool after_free = false;
  heap.for_each_block([&](const Heap::Block& block) {
    const std::uint64_t size = block.size.value();
    ok = ok && block.offset.value() == end && size > 0 && size % 64 == 0 && (block.live || !after_free);
    end += size;
    after_free = !block.live;
    (block.live ? used : free) += size;
    if (!block.live) largest = std::max(largest, size);
  });
  return ok && end == begin + heap.capacity().value() && heap.free_bytes() == Bytes{free} &&
         heap.used() == Bytes{used} && heap.largest_free() == Bytes{largest};
}

/// The same policy over a map of granules: free ranges are found by scanning, and their ages kept in a list.
class NaiveHeap {
 public:
  explicit NaiveHeap(std::size_t granules) : owner_(granules, 0) { rescan(); }

  std::optional<std::uint64_t> allocate(std::uint64_t size, std::uint64_t alignment) {
    const std::uint64_t wanted = (size + 63) / 64 * 64;
    const std::pair<std::uint64_t, std::uint64_t>* best = nullptr;
    for (const auto& range : by_age_) {
      if (aligned(range.first, alignment) + wanted > range.first + range.second) continue;
      if (best == nullptr || range.second < best->second) best = &range;
    }
    if (best == nullptr) return std::nullopt;
    const std::uint64_t offset = aligned(best->first, alignment);
    ++last_owner_;
    for (std::uint64_t at = offset; at < offset + wanted; at += 64) owner_[at / 64] = last_owner_;
    rescan();
    return offset;
  }

  void free(std::uint64_t offset) {
    const int owner = owner_[offset / 64];
    std::replace(owner_.begin(), owner_.end(), owner, 0);
    rescan();
  }

  [[nodiscard]] Ranges free_ranges() const {
    Ranges sorted = by_age_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  [[nodiscard]] std::uint64_t free_bytes() const {
    return static_cast<std::uint64_t>(std::count(owner_.begin(), owner_.end(), 0)) * 64;
  }

 private:
  static std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
  }

  void rescan() {
    Ranges now;
    for (std::size_t i = 0; i < owner_.size(); ++i) {
      if (owner_[i] != 0) continue;
      if (i > 0 && owner_[i - 1] == 0) {
        now.back().second += 64;
      } else {
        now.emplace_back(i * 64, 64);
      }
    }
    const auto is_in = [](const Ranges& list, const auto& range) {
      return std::find(list.begin(), list.end(), range) != list.end();
    };
    std::erase_if(by_age_, [&](const auto& range) { return !is_in(now, range); });
    for (const auto& range : now) {
      if (!is_in(by_age_, range)) by_age_.push_back(range);
    }
  }

  std::vector<int> owner_;
  int last_owner_ = 0;
  Ranges by_age_;
};

/// Blocks of one size until none fits; how many went in.
std::uint64_t fill(Heap& heap, std::uint64_t size) {
  std::uint64_t count = 0;
  while (heap.allocate(Bytes{size})) ++count;
  return count;
}

/// Size of an object, and how much of the memory then holds data.
struct Share {
  std::uint64_t size;
  double percent;
};

double percent(std::uint64_t part, std::uint64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

TEST_CASE("heap: the published example, number by number") {
  Heap heap(Offset{0}, Bytes{1024});
  CHECK(take(heap, 128) == 0);
  CHECK(take(heap, 64) == 128);
  CHECK(take(heap, 64) == 192);
  CHECK(take(heap, 64) == 256);
  CHECK(take(heap, 64) == 320);
  CHECK(free_ranges(heap) == Ranges{{384, 640}});
  release(heap, 192);
  CHECK(free_ranges(heap) == Ranges{{192, 64}, {384, 640}});
  release(heap, 256);
  CHECK(free_ranges(heap) == Ranges{{192, 128}, {384, 640}});
  release(heap, 0);
  CHECK(free_ranges(heap) == Ranges{{0, 128}, {192, 128}, {384, 640}});
  release(heap, 128);
  CHECK(free_ranges(heap) == Ranges{{0, 320}, {384, 640}});
  CHECK(heap.free_bytes() == Bytes{960});
  CHECK(heap.live_blocks() == 1);
  release(heap, 320);
  CHECK(free_ranges(heap) == Ranges{{0, 1024}});
  CHECK(consistent(heap, 0));
}

TEST_CASE("heap: of equally long free ranges the one freed first is taken") {
  Heap heap(Offset{0}, Bytes{1024});
  for (int i = 0; i < 16; ++i) take(heap, 64);
  for (const std::uint64_t offset : {576U, 64U, 320U}) release(heap, offset);
  CHECK(take(heap, 64) == 576);
  CHECK(take(heap, 1) == 64);
  CHECK(take(heap, 64) == 320);
}

TEST_CASE("heap: the shortest range that is long enough is taken, at its low end") {
  Heap heap(Offset{0}, Bytes{4096});
  const auto a = take(heap, 256);
  take(heap, 64);
  const auto b = take(heap, 128);
  take(heap, 64);
  release(heap, a);
  release(heap, b);
  CHECK(take(heap, 100) == b);
  CHECK(take(heap, 65) == a);
  CHECK(free_ranges(heap) == Ranges{{128, 128}, {512, 3584}});
}

TEST_CASE("heap: offsets start where the heap does") {
  Heap heap(Offset{102'400}, Bytes{1000});
  CHECK(heap.capacity() == Bytes{960});
  CHECK(take(heap, 1) == 102'400);
  CHECK(heap.used() == Bytes{64});
  CHECK(take(heap, 896) == 102'464);
  CHECK(heap.largest_free() == Bytes{0});
  CHECK_THROWS_AS(Heap(Offset{32}, Bytes{1024}), ContractViolation);
  CHECK_THROWS_AS(Heap(Offset{kMax - 63}, Bytes{64}), ContractViolation);
  Heap empty(Offset{0}, Bytes{63});
  CHECK(refusal(empty.allocate(Bytes{1})) == Errc::out_of_memory);
}

TEST_CASE("heap: fragmentation and exhaustion are told apart, with the figures") {
  Heap heap(Offset{0}, Bytes{16 * kMiB});
  std::array<std::uint64_t, 8> blocks{};
  for (auto& block : blocks) block = take(heap, 2 * kMiB);
  release(heap, blocks[0]);
  release(heap, blocks[2]);
  const auto fragmented = heap.allocate(Bytes{4 * kMiB});
  REQUIRE(refusal(fragmented) == Errc::fragmented);
  const std::string& text = fragmented.error().context;
  CHECK(text.find("asked for 4194304 bytes") != std::string::npos);
  CHECK(text.find("4194304 of 16777216 are free") != std::string::npos);
  CHECK(text.find("largest free range has 2097152") != std::string::npos);

  CHECK(refusal(heap.allocate(Bytes{4 * kMiB + 1})) == Errc::out_of_memory);
  take(heap, 2 * kMiB);
  take(heap, 2 * kMiB);
  CHECK(heap.free_bytes() == Bytes{0});
  const auto exhausted = heap.allocate(Bytes{kMiB});
  REQUIRE(refusal(exhausted) == Errc::out_of_memory);
  CHECK(exhausted.error().context.find("0 of 16777216 are free") != std::string::npos);
  CHECK(exhausted.error().context.find("larger heap") != std::string::npos);
}

TEST_CASE("heap: wrong arguments are refused and change nothing") {
  Heap heap(Offset{0}, Bytes{1024});
  const auto offset = take(heap, 128);
  const std::uint64_t history = heap.history();
  for (const std::uint64_t alignment : {0U, 1U, 32U, 63U, 65U, 96U}) {
    CHECK(refusal(heap.allocate(Bytes{64}, Bytes{alignment})) == Errc::invalid_argument);
  }
  CHECK(refusal(heap.allocate(Bytes{0})) == Errc::invalid_argument);
  for (const std::uint64_t wrong : {std::uint64_t{64}, std::uint64_t{128}, std::uint64_t{1}, kMax}) {
    const auto result = heap.free(Offset{wrong});
    REQUIRE(!result);
    CHECK(result.error().code == Errc::invalid_argument);
    CHECK(result.error().context.find(std::to_string(wrong)) != std::string::npos);
  }
  CHECK(heap.history() == history);
  release(heap, offset);
  CHECK(!heap.free(Offset{offset}));
  CHECK(consistent(heap, 0));
}

TEST_CASE("heap: sizes near 2^64 do not wrap") {
  Heap small(Offset{0}, Bytes{1024});
  for (const std::uint64_t size : {kMax, kMax - 62, kMax - 63, std::uint64_t{1} << 63}) {
    CHECK(refusal(small.allocate(Bytes{size})) == Errc::out_of_memory);
  }
  CHECK(take(small, 64, std::uint64_t{1} << 63) == 0);
  CHECK(refusal(small.allocate(Bytes{64}, Bytes{std::uint64_t{1} << 63})) == Errc::fragmented);

  Heap huge(Offset{64}, Bytes{kMax - 64});
  CHECK(refusal(huge.allocate(Bytes{kMax})) == Errc::out_of_memory);
  CHECK(take(huge, 64, std::uint64_t{1} << 63) == std::uint64_t{1} << 63);
  CHECK(refusal(huge.allocate(Bytes{64}, Bytes{std::uint64_t{1} << 63})) == Errc::fragmented);
  CHECK(consistent(huge, 64));
}

TEST_CASE("heap: an aligned block leaves both ends of its range free") {
  Heap heap(Offset{64}, Bytes{16384});
  CHECK(take(heap, 100, 4096) == 4096);
  CHECK(free_ranges(heap) == Ranges{{64, 4032}, {4224, 12224}});
  CHECK(take(heap, 4096, 4096) == 8192);
  CHECK(take(heap, 4032) == 64);
  release(heap, 4096);
  CHECK(free_ranges(heap) == Ranges{{4096, 4096}, {12288, 4160}});
  CHECK(take(heap, 4096, 4096) == 4096);
  CHECK(consistent(heap, 64));
}

TEST_CASE("heap: agrees with a granule map over random calls") {
  const char* given = std::getenv("SHMOE_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::stoul(given)) : std::random_device{}();
  MESSAGE("seed " << seed << "; SHMOE_TEST_SEED repeats a run");
  std::mt19937 random(seed);
  constexpr std::size_t kGranules = 256;
  int refused_fragmented = 0;
  for (int run = 0; run < 20; ++run) {
    Heap heap(Offset{0}, Bytes{kGranules * 64});
    NaiveHeap naive(kGranules);
    std::vector<std::uint64_t> live;
    int wrong = 0;
    for (int i = 0; i < 1000; ++i) {
      if (live.empty() || random() % 100 < 55) {
        const std::uint64_t size = 1 + random() % (random() % 8 == 0 ? 2000 : 300);
        const std::uint64_t alignment = std::uint64_t{64} << (random() % 4 == 0 ? random() % 6 : 0);
        const auto got = heap.allocate(Bytes{size}, Bytes{alignment});
        const auto expected = naive.allocate(size, alignment);
        if (expected) {
          wrong += !got || got->value() != *expected;
          live.push_back(*expected);
        } else {
          const bool enough = naive.free_bytes() >= size;
          refused_fragmented += enough;
          wrong += refusal(got) != (enough ? Errc::fragmented : Errc::out_of_memory);
        }
      } else {
        std::swap(live[random() % live.size()], live.back());
        wrong += !heap.free(Offset{live.back()});
        naive.free(live.back());
        live.pop_back();
      }
      wrong += free_ranges(heap) != naive.free_ranges() || !consistent(heap, 0) || heap.live_blocks() != live.size();
    }
    CHECK(wrong == 0);
    for (const std::uint64_t offset : live) release(heap, offset);
    CHECK(free_ranges(heap) == Ranges{{0, kGranules * 64}});
  }
  CHECK(refused_fragmented > 0);
}

TEST_CASE("heap: small objects are used as published, by their rounding alone") {
  for (const Share& line : {Share{150, 78.12}, Share{1000, 97.65}, Share{4000, 99.2}, Share{10'700, 99.51}}) {
    CAPTURE(line.size);
    Heap heap(Offset{0}, Bytes{10 * kMiB});
    const std::uint64_t count = fill(heap, line.size);
    CHECK(count == 10 * kMiB / round_up(line.size, 64));
    CHECK(heap.free_bytes() < Bytes{round_up(line.size, 64)});
    CHECK(percent(count * line.size, heap.used().value()) == doctest::Approx(line.percent).epsilon(0.0002));
  }
}

TEST_CASE("heap: large objects fill the published region") {
  constexpr std::uint64_t kRegion = 10 * 1024 * kMiB + 10 * kMiB;
  // Published for the last: 99.95; but an 81st object of that size passes the end of this region.
  for (const Share& line : {Share{100'000, 99.97}, Share{1'200'005, 99.99}, Share{133'000'030, 99.0}}) {
    CAPTURE(line.size);
    Heap heap(Offset{0}, Bytes{kRegion});
    const std::uint64_t count = fill(heap, line.size);
    CHECK(std::abs(percent(count * line.size, kRegion) - line.percent) < 0.01);
  }
}

TEST_CASE("heap: histories are equal exactly where the calls are") {
  const auto history = [](std::initializer_list<std::uint64_t> sizes, bool free_first = false) {
    Heap heap(Offset{0}, Bytes{4096});
    for (const std::uint64_t size : sizes) take(heap, size);
    if (free_first) release(heap, 0);
    return heap.history();
  };
  CHECK(history({64, 128, 64}) == history({64, 128, 64}));
  CHECK(history({64, 128, 64}) != history({128, 64, 64}));
  CHECK(history({64, 128}) != history({64, 128, 64}));
  CHECK(history({100}) != history({101}));
  CHECK(history({64}) != history({64}, true));
  CHECK(history({}) != history({64}, true));
  CHECK(Heap(Offset{0}, Bytes{4096}).history() != Heap(Offset{0}, Bytes{8192}).history());
  CHECK(Heap(Offset{0}, Bytes{4096}).history() != Heap(Offset{64}, Bytes{4096}).history());

  Heap heap(Offset{0}, Bytes{4096});
  take(heap, 64);
  Heap copy = heap;
  CHECK(refusal(copy.allocate(Bytes{8192})) == Errc::out_of_memory);
  CHECK(copy.history() == heap.history());
  CHECK(take(copy, 64) == take(heap, 64));
  CHECK(copy.history() == heap.history());
}
