// Defragmentation by moving: which blocks go where, and that the bytes go with them.

#include <array>
#include <cstring>
#include <numeric>

#include "tests/seed.hpp"
#include "tests/shmem/heap_support.hpp"
#include "tests/shmem/naive_heap.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

using Moves = std::vector<std::array<std::uint64_t, 3>>;  // {from, to, size}

Moves listed(const std::vector<Move>& moves) {
  Moves list;
  for (const Move& move : moves) list.push_back({move.from.value(), move.to.value(), move.size.value()});
  return list;
}

std::uint64_t take_movable(Heap& heap, std::uint64_t size, std::uint64_t alignment = 64) {
  return take(heap, size, alignment, Mobility::movable);
}

/// A heap over real bytes: each block holds its own number, over and over.
class Filled {
 public:
  explicit Filled(std::size_t granules)
      : heap_(Offset{0}, Bytes{granules * 64}), naive_(granules), words_(granules * 16) {}

  /// Whether both heaps refuse, or give the same place.
  bool allocate(std::uint64_t size, std::uint64_t alignment, Mobility mobility) {
    const auto got = heap_.allocate(Bytes{size}, Bytes{alignment}, mobility);
    const auto expected = naive_.allocate(size, alignment, mobility);
    if (!got || !expected) return !got && !expected;
    const auto first = words_.begin() + static_cast<std::ptrdiff_t>(*expected / 4);
    std::fill_n(first, heap_.size_of(*got).value() / 4, naive_.owners()[*expected / 64]);
    live_.push_back(*expected);
    return got->value() == *expected;
  }

  bool free(std::size_t which) {
    const std::uint64_t offset = take_out(which);
    naive_.free(offset);
    return heap_.free(Offset{offset}).has_value();
  }

  bool set_mobility(std::size_t which, Mobility mobility) {
    naive_.set_mobility(live_[which], mobility);
    return heap_.set_mobility(Offset{live_[which]}, mobility).has_value();
  }

  /// Whether it moves what it planned to, each block downwards, by ascending offset.
  bool compact() {
    const std::vector<Move> planned = heap_.planned_moves();
    const std::vector<Move> moves = heap_.compact();
    naive_.compact();
    bool good = planned == moves;
    Offset last{0};
    for (const Move& move : moves) {
      good = good && move.to < move.from && last < move.from;
      last = move.from;
      std::memmove(words_.data() + move.to.value() / 4, words_.data() + move.from.value() / 4, move.size.value());
    }
    for (std::uint64_t& offset : live_) offset = place_after(moves, Offset{offset}).value();
    moved_ += moves.size();
    return good;
  }

  /// Blocks and free ranges lie as the model says, and every block holds its number.
  [[nodiscard]] bool good() const {
    bool good =
        naive_.free_ranges() == free_ranges(heap_) && consistent(heap_, 0) && heap_.live_blocks() == live_.size();
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const int owner = naive_.owners()[i / 16];
      good = good && (owner == 0 || words_[i] == owner);
    }
    for (const std::uint64_t offset : live_) good = good && heap_.size_of(Offset{offset}).value() != 0;
    return good;
  }

  [[nodiscard]] std::size_t live() const { return live_.size(); }
  [[nodiscard]] std::size_t moved() const { return moved_; }

 private:
  std::uint64_t take_out(std::size_t which) {
    std::swap(live_[which], live_.back());
    const std::uint64_t offset = live_.back();
    live_.pop_back();
    return offset;
  }

  Heap heap_;
  NaiveHeap naive_;
  std::vector<int> words_;
  std::vector<std::uint64_t> live_;
  std::size_t moved_ = 0;
};

/// `count` sizes of random weights that add up to `total`.
std::vector<std::uint64_t> drawn(std::mt19937& random, std::size_t count, std::uint64_t total) {
  std::vector<std::uint64_t> weights(count);
  for (std::uint64_t& weight : weights) weight = 1 + random() % 1000;
  const std::uint64_t all = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t weight : weights) sizes.push_back(total / all * weight);
  sizes.back() += total - std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  return sizes;
}

}  // namespace

TEST_CASE("heap: movable blocks slide together, over their own old places") {
  Heap heap(Offset{128}, Bytes{2048});
  const auto a = take_movable(heap, 64);
  take_movable(heap, 256);
  const auto c = take_movable(heap, 64);
  take_movable(heap, 300);
  release(heap, a);
  release(heap, c);
  const std::vector<Move> moves = heap.compact();
  CHECK(listed(moves) == Moves{{192, 128, 256}, {512, 384, 320}});
  CHECK(free_ranges(heap) == Ranges{{704, 1472}});
  CHECK(place_after(moves, Offset{192}) == Offset{128});
  CHECK(place_after(moves, Offset{512}) == Offset{384});
  CHECK(place_after(moves, Offset{384}) == Offset{384});
  CHECK(place_after({}, Offset{192}) == Offset{192});
  CHECK(heap.size_of(Offset{384}) == Bytes{320});
  CHECK(heap.size_of(Offset{512}) == Bytes{0});
  CHECK(heap.compact().empty());
  release(heap, 128);
  release(heap, 384);
  CHECK(free_ranges(heap) == Ranges{{128, 2048}});
}

TEST_CASE("heap: pinned blocks stay, and movable ones pass them") {
  Heap heap(Offset{0}, Bytes{1024});
  const auto hole = take(heap, 128);
  const auto pinned = take(heap, 64);
  take_movable(heap, 192);
  const auto last = take_movable(heap, 64);
  release(heap, hole);
  CHECK(listed(heap.planned_moves()) == Moves{{384, 0, 64}});
  CHECK(listed(heap.compact()) == Moves{{384, 0, 64}});
  CHECK(free_ranges(heap) == Ranges{{64, 64}, {384, 640}});
  CHECK(heap.size_of(Offset{pinned}) == Bytes{64});

  CHECK(heap.set_mobility(Offset{pinned}, Mobility::movable));
  CHECK(listed(heap.compact()) == Moves{{128, 64, 64}, {192, 128, 192}});
  CHECK(heap.set_mobility(Offset{0}, Mobility::pinned));
  CHECK(heap.set_mobility(Offset{64}, Mobility::pinned));
  CHECK(heap.set_mobility(Offset{128}, Mobility::pinned));
  CHECK(heap.compact().empty());
  const auto refused = heap.set_mobility(Offset{last}, Mobility::movable);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::invalid_argument);
}

TEST_CASE("heap: nothing moves where the largest free range would not become longer") {
  Heap heap(Offset{0}, Bytes{1024});
  const auto large = take(heap, 512);
  take(heap, 64);
  take_movable(heap, 64);
  take(heap, 384);
  release(heap, large);
  CHECK(heap.compact().empty());
  CHECK(free_ranges(heap) == Ranges{{0, 512}});
}

TEST_CASE("heap: a moved block keeps its alignment") {
  Heap heap(Offset{0}, Bytes{4096});
  const auto hole = take(heap, 640);
  CHECK(take_movable(heap, 100, 512) == 1024);
  CHECK(take_movable(heap, 64) == 640);
  release(heap, hole);
  CHECK(listed(heap.compact()) == Moves{{640, 0, 64}, {1024, 512, 128}});
  CHECK(free_ranges(heap) == Ranges{{64, 448}, {640, 3456}});
}

TEST_CASE("heap: free ranges that compaction makes are younger than those that it leaves") {
  Heap heap(Offset{0}, Bytes{896});
  take(heap, 64);
  take_movable(heap, 64);  // 64
  take(heap, 64);
  take(heap, 64);  // 192, stays
  take(heap, 128);
  take(heap, 64);  // 384, stays
  take(heap, 64);
  take_movable(heap, 256);  // 512; 128 bytes behind it
  for (const std::uint64_t hole : {0U, 128U, 448U, 256U}) release(heap, hole);
  CHECK(listed(heap.compact()) == Moves{{64, 0, 64}, {512, 448, 256}});
  CHECK(free_ranges(heap) == Ranges{{64, 128}, {256, 128}, {704, 192}});
  CHECK(take(heap, 128) == 256);
  CHECK(take(heap, 128) == 64);
}

TEST_CASE("heap: a fragmented heap tells of compact() where blocks are movable") {
  Heap heap(Offset{0}, Bytes{512});
  const auto hole = take(heap, 128);
  const auto block = take(heap, 256);
  release(heap, hole);
  const auto text = [&] {
    const auto refused = heap.allocate(Bytes{192});
    REQUIRE(refusal(refused) == Errc::fragmented);
    return refused.error().context;
  };
  CHECK(text().find("compact()") == std::string::npos);
  CHECK(heap.set_mobility(Offset{block}, Mobility::movable));
  CHECK(text().find("compact() joins free ranges: 1 of 1 blocks are movable") != std::string::npos);
  CHECK(heap.set_mobility(Offset{block}, Mobility::pinned));
  CHECK(text().find("compact()") == std::string::npos);
  CHECK(heap.set_mobility(Offset{block}, Mobility::movable));
  CHECK(listed(heap.compact()) == Moves{{128, 0, 256}});
  CHECK(take(heap, 192) == 256);
  release(heap, 0);
  CHECK(take(heap, 192) == 0);
  const auto fixed = heap.allocate(Bytes{128});  // between two pinned blocks
  REQUIRE(refusal(fixed) == Errc::fragmented);
  CHECK(fixed.error().context.find("compact()") == std::string::npos);
}

TEST_CASE("heap: compaction agrees with a granule map over random calls, and every byte moves along") {
  std::mt19937 random = shmoe::test::fresh_random();
  std::size_t moved = 0;
  for (int run = 0; run < 20; ++run) {
    Filled filled(256);
    const std::uint64_t pinned_percent = random() % 101;
    const auto mobility = [&] { return random() % 100 < pinned_percent ? Mobility::pinned : Mobility::movable; };
    int wrong = 0;
    for (int i = 0; i < 600; ++i) {
      const std::uint64_t choice = random() % 100;
      if (filled.live() == 0 || choice < 50) {
        const std::uint64_t size = 1 + random() % (random() % 8 == 0 ? 2000 : 300);
        const std::uint64_t alignment = std::uint64_t{64} << (random() % 4 == 0 ? random() % 6 : 0);
        wrong += !filled.allocate(size, alignment, mobility());
      } else if (choice < 85) {
        wrong += !filled.free(random() % filled.live());
      } else if (choice < 95) {
        wrong += !filled.set_mobility(random() % filled.live(), mobility());
      } else {
        wrong += !filled.compact();
      }
      wrong += !filled.good();
    }
    CHECK(wrong == 0);
    moved += filled.moved();
  }
  CHECK(moved > 0);
}

// The published scenario with sizes of our own: only their number and their sums are published. There the last request
// fails, because remapping pages cannot use the pages at the edges of blocks.
TEST_CASE("heap: the mixed scenario stays as full after defragmentation as it was before") {
  constexpr std::uint64_t kRegion = 10'747'904'000;
  constexpr std::uint64_t kRemoved = 4'440'204'957;
  constexpr std::uint64_t kTotal = 10'737'332'006;
  std::mt19937 random = shmoe::test::fresh_random();
  const std::vector<std::uint64_t> even = drawn(random, 14, kRemoved);
  const std::vector<std::uint64_t> odd = drawn(random, 13, kTotal - kRemoved);
  Heap heap(Offset{0}, Bytes{kRegion});
  std::vector<std::uint64_t> places;
  for (std::size_t i = 0; i < 27; ++i) {
    places.push_back(take_movable(heap, i % 2 == 0 ? even[i / 2] : odd[i / 2]));
  }
  CHECK((10'000 * kTotal + kRegion / 2) / kRegion == 9990);
  for (std::size_t i = 0; i < 27; i += 2) release(heap, places[i]);
  CHECK(free_ranges(heap).size() == 14);
  CHECK(refusal(heap.allocate(Bytes{kRemoved})) == Errc::fragmented);

  std::uint64_t kept = 0;
  for (const std::uint64_t size : odd) kept += (size + 63) / 64 * 64;
  CHECK(heap.compact().size() == 13);
  CHECK(free_ranges(heap) == Ranges{{kept, kRegion - kept}});
  CHECK(take_movable(heap, kRemoved) == kept);
  const std::uint64_t live = std::accumulate(odd.begin(), odd.end(), std::uint64_t{0}) + kRemoved;
  CHECK(live == kTotal);
  CHECK((10'000 * live + kRegion / 2) / kRegion == 9990);
}
