#include "shmem/types.hpp"

#include <string>
#include <type_traits>
#include <unordered_set>

#include <doctest/doctest.h>

#include "shmem/result.hpp"

using namespace shmoe;

static_assert(!std::is_convertible_v<Rank, Core> && !std::is_constructible_v<Core, Rank>);
static_assert(!std::is_convertible_v<int, Rank>);
static_assert(!std::is_constructible_v<Bytes, Offset> && !std::is_constructible_v<Slot, Expert>);
static_assert(sizeof(Rank) == 4 && sizeof(Offset) == 8);
static_assert(round_up(0, 64) == 0 && round_up(1, 64) == 64 && round_up(64, 64) == 64 && round_up(65, 64) == 128);
static_assert(Offset{100} + Bytes{28} == Offset{128} && Offset{128} - Offset{100} == Bytes{28});
static_assert(Bytes{3} * 4 + Bytes{1} == Bytes{13});
static_assert(size_of(DType::bf16) == Bytes{2} && size_of(DType::fp16) == Bytes{2} && size_of(DType::fp32) == Bytes{4});

TEST_CASE("split covers the items in order, and sizes differ by at most one") {
  for (const std::int64_t n : {0, 1, 2, 3, 7, 47, 48, 49, 384, 1000, 65537}) {
    for (const std::int64_t workers : {1, 2, 3, 5, 7, 24, 47, 48, 384}) {
      std::int64_t next = 0;
      bool ok = true;
      for (std::int64_t worker = 0; worker < workers; ++worker) {
        const Slice slice = split(n, workers, worker);
        ok = ok && slice.first == next && slice.size() == n / workers + (worker < n % workers ? 1 : 0);
        next = slice.last;
      }
      CAPTURE(n);
      CAPTURE(workers);
      CHECK(ok);
      CHECK(next == n);
    }
  }
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  CHECK(split(kMany + 1, 48, 47).last == kMany + 1);
}

TEST_CASE("strong numbers print, hash and compare as their values") {
  CHECK(fmt::format("{} {:#x} {:>4}", Rank{3}, Offset{0x1F000}, Core{7}) == "3 0x1f000    7");
  CHECK(fmt::format("{}", Rank{-1}) == "-1");
  CHECK(Rank{1} < Rank{2});
  CHECK(Rank{2} == Rank{std::int64_t{2}});
  CHECK(Bytes{1} != Bytes{2});
  CHECK(Expert{5}.index() == 5);
  Rank rank;
  CHECK(rank.value() == 0);
  CHECK((++rank).value() == 1);
  std::unordered_set<Slot> slots;
  for (std::uint32_t i = 0; i < 100; ++i) slots.insert(Slot{i % 10});
  CHECK(slots.size() == 10);
  CHECK(std::hash<Rank>{}(Rank{7}) == std::hash<std::int32_t>{}(7));
}

TEST_CASE("element types have names") {
  CHECK(std::string(name_of(DType::bf16)) == "bf16");
  CHECK(std::string(name_of(DType::fp16)) == "fp16");
  CHECK(std::string(name_of(DType::fp32)) == "fp32");
}
