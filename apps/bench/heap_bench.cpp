#include "apps/bench/heap_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "apps/shmoe/counter_random.hpp"
#include "apps/shmoe/stats.hpp"
#include "shmem/heap.hpp"

namespace shmoe::apps {
namespace {

using shmem::Heap;
using shmem::Mobility;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Whether blocks lie apart, within the first `end` bytes.
bool are_apart(const Heap& heap, std::vector<Offset> blocks, std::uint64_t end) {
  std::ranges::sort(blocks);
  Offset free_from{0};
  for (const Offset block : blocks) {
    if (block < free_from) return false;
    free_from = block + heap.size_of(block);
  }
  return free_from.value() <= end;
}

Offset placed(Heap& heap, std::uint64_t size) {
  const Result<Offset> at = heap.allocate(Bytes{size}, Heap::kGranule, Mobility::movable);
  SHMOE_EXPECTS(at.has_value(), "{}", to_string(at.error()));
  return *at;
}

/// A heap whose blocks come and go in no order.
class Churn {
 public:
  static constexpr std::size_t kLive = 10'000;
  static constexpr std::size_t kSeries = 100;  // calls between two looks at the clock

  Churn() {
    while (live_.size() < kLive) live_.push_back(placed(heap_, size()));
  }

  struct Times {
    double alloc_us;
    double free_us;
  };
  /// Gives a series of random blocks back and takes as many others.
  Times turn() {
    std::vector<std::uint64_t> sizes(kSeries);
    for (std::size_t i = 0; i < kSeries; ++i) {
      const std::size_t last = kLive - 1 - i;
      std::swap(live_[next() % (last + 1)], live_[last]);
      sizes[i] = size();
    }
    const auto start = Clock::now();
    for (std::size_t i = kLive - kSeries; i < kLive; ++i) freed_ += heap_.free(live_[i]).has_value();
    const auto between = Clock::now();
    for (std::size_t i = 0; i < kSeries; ++i) live_[kLive - kSeries + i] = placed(heap_, sizes[i]);
    const auto end = Clock::now();
    SHMOE_EXPECTS(freed_ == ++turns_ * kSeries, "{} of {} blocks were freed", freed_, turns_ * kSeries);
    return {.alloc_us = us_a_call(end - between), .free_us = us_a_call(between - start)};
  }

  [[nodiscard]] bool is_sound() const { return are_apart(heap_, live_, kBytes); }

 private:
  using Clock = std::chrono::steady_clock;

  static double us_a_call(Clock::duration series) {
    return std::chrono::duration<double, std::micro>(series).count() / static_cast<double>(kSeries);
  }
  std::uint64_t next() { return random_at({1, ++drawn_}); }
  std::uint64_t size() { return 1 + next() % kMiB; }

  static constexpr std::uint64_t kBytes = kMiB * kMiB;

  Heap heap_{Offset{0}, Bytes{kBytes}};
  std::vector<Offset> live_;
  std::uint64_t drawn_ = 0;
  std::size_t freed_ = 0;
  std::size_t turns_ = 0;
};

/// `count` sizes of random weights that add up to `total`.
std::vector<std::uint64_t> drawn_sizes(std::uint64_t seed, std::size_t count, std::uint64_t total) {
  std::vector<std::uint64_t> sizes(count);
  for (std::size_t i = 0; i < count; ++i) sizes[i] = 1 + random_at({seed, i}) % 1000;
  const std::uint64_t weights = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  for (std::uint64_t& size : sizes) size *= total / weights;
  sizes.back() += total - std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  return sizes;
}

struct Utilisation {
  double mixed;
  double after;
};

Utilisation mixed_scenario() {
  constexpr std::uint64_t kRegion = 10'747'904'000;
  constexpr std::uint64_t kFreed = 4'440'204'957;
  constexpr std::uint64_t kKept = 10'737'332'006 - kFreed;
  const std::vector<std::uint64_t> freed = drawn_sizes(2, 14, kFreed);
  const std::vector<std::uint64_t> kept = drawn_sizes(3, 13, kKept);

  Heap heap(Offset{0}, Bytes{kRegion});
  std::uint64_t asked = 0;
  const auto take = [&](std::uint64_t size) {
    asked += size;
    return placed(heap, size);
  };
  const auto share = [&] { return static_cast<double>(asked) / static_cast<double>(kRegion); };
  std::vector<Offset> holes;
  for (std::size_t i = 0; i < 27; ++i) {
    if (i % 2 == 0) {
      holes.push_back(take(freed[i / 2]));
    } else {
      take(kept[i / 2]);
    }
  }
  const double mixed = share();
  for (const Offset hole : holes) SHMOE_EXPECTS(heap.free(hole).has_value(), "no block at {}", hole);
  asked -= kFreed;
  heap.compact();
  take(kFreed);
  return {.mixed = mixed, .after = share()};
}

}  // namespace

HeapFigures measure_heap() {
  Churn churn;
  for (int i = 0; i < 2000; ++i) churn.turn();
  std::vector<double> alloc;
  std::vector<double> free;
  for (int i = 0; i < 5000; ++i) {
    const Churn::Times times = churn.turn();
    alloc.push_back(times.alloc_us);
    free.push_back(times.free_us);
  }
  const Utilisation utilisation = mixed_scenario();
  return {.alloc_us = median(std::move(alloc)),
          .free_us = median(std::move(free)),
          .utilisation_mixed = utilisation.mixed,
          .utilisation_after = utilisation.after,
          .sound = churn.is_sound()};
}

}  // namespace shmoe::apps
