#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>
#include <sched.h>

#include "shmem/copy_calibration.hpp"
#include "shmem/copy_plan.hpp"
#include "shmem/fence.hpp"

using namespace shmoe;
using namespace shmoe::shmem;

namespace {

constexpr std::size_t kGuard = 66;
constexpr std::byte kCanary{0xA5};

}  // namespace

TEST_CASE("copy_row writes its bytes and no other") {
  std::mt19937 random(7);
  std::vector<std::size_t> sizes(301);
  std::iota(sizes.begin(), sizes.end(), std::size_t{0});
  sizes.insert(sizes.end(), {1000U, 4097U, 14336U});
  for (const CopyKind kind : kCopyKinds) {
    CAPTURE(name_of(kind));
    for (const std::size_t size : sizes) {
      for (const std::size_t shift : {0U, 1U, 2U, 33U, 63U}) {
        std::vector<std::byte> source(size + 2 * kGuard);
        for (std::byte& b : source) b = static_cast<std::byte>(random());
        const std::span<const std::byte> from = std::span<const std::byte>(source).subspan(kGuard - shift, size);
        std::vector<std::byte> to(size + 2 * kGuard, kCanary);
        copy_row(std::span(to).subspan(shift, size), from, kind);
        store_fence();
        const auto first = to.begin() + static_cast<std::ptrdiff_t>(shift);
        const auto last = first + static_cast<std::ptrdiff_t>(size);
        CHECK(std::equal(first, last, from.begin()));
        CHECK(std::all_of(to.begin(), first, [](std::byte b) { return b == kCanary; }));
        CHECK(std::all_of(last, to.end(), [](std::byte b) { return b == kCanary; }));
      }
    }
    std::array<std::byte, 4> small{};
    CHECK_THROWS_AS(copy_row(small, std::span(small).first(3), kind), ContractViolation);
  }
}

TEST_CASE("a copy plan: short rows cached, long ones as planned while near, and past the cache from there on") {
  constexpr CopyPlan plan{.kind = CopyKind::movsb, .long_row = 100, .near_bytes = 1000};
  static_assert(plan.choose(99, 0) == CopyKind::cached && plan.choose(99, 5000) == CopyKind::cached);
  static_assert(plan.choose(100, 0) == CopyKind::movsb && plan.choose(100, 800) == CopyKind::movsb);
  static_assert(plan.choose(100, 801) == CopyKind::streaming && plan.choose(501, 0) == CopyKind::streaming);
  static_assert(plan.choose(100, 1000) == CopyKind::streaming && plan.choose(100, 5000) == CopyKind::streaming);
  static_assert(CopyPlan{}.choose(1U << 20U, ~std::uint64_t{0} - 1) == CopyKind::cached);
}

TEST_CASE("kinds of copies have names") {
  for (const CopyKind kind : kCopyKinds) CHECK(find_copy_kind(name_of(kind)) == kind);
  CHECK(!find_copy_kind("auto"));
}

TEST_CASE("a calibration measures every kind, and prefers the cache to what is hardly faster") {
  const CopyTimes times = calibrate_copy(1U << 19U, Time{0});
  for (const CopyKind kind : kCopyKinds) CHECK(times.of(kind) > Time{0});
  CHECK(CopyTimes{}.fastest() == CopyKind::cached);
  CHECK(CopyTimes{{Time{100}, Time{91}, Time{95}}}.fastest() == CopyKind::cached);
  CHECK(CopyTimes{{Time{100}, Time{80}, Time{85}}}.fastest() == CopyKind::streaming);
  CHECK(CopyTimes{{Time{100}, Time{80}, Time{60}}}.fastest() == CopyKind::movsb);
}

TEST_CASE("a calibration copies whole rounds of its source, whatever it is asked for") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{9} * 16384, std::size_t{572} * 16384}) {
    CHECK(calibrate_copy(bytes, Time{0}).of(CopyKind::streaming) > Time{0});
  }
}

TEST_CASE("a calibration leaves the thread on the CPUs it had") {
  cpu_set_t before;
  cpu_set_t after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  (void)calibrate_copy(1U << 19U, Time{0});
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}
