// Chunks, shards and slots of the detour collectives, and the reduction of rows.

#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include "ops/detour/reduce.hpp"
#include "ops/detour/shards.hpp"
#include "shmem/result.hpp"

using namespace shmoe;
using ops::DetourGroup;
using ops::DetourSlots;
using ops::Element;
using ops::Reduction;
using ops::Shards;

namespace {

std::vector<std::int64_t> lengths(std::int64_t elements, std::int32_t count) {
  std::vector<std::int64_t> all;
  std::int64_t end = 0;
  for (std::int32_t shard = 0; shard < count; ++shard) {
    const Slice slice = Shards{.elements = elements, .count = count}.at(shard);
    CHECK(slice.first == end);
    end = slice.last;
    all.push_back(slice.size());
  }
  CHECK(end == elements);
  return all;
}

template <class T>
std::vector<T> reduced(Element type, Reduction reduction, const std::vector<std::vector<T>>& rows) {
  std::vector<std::span<const std::byte>> views;
  for (const std::vector<T>& row : rows) views.push_back(std::as_bytes(std::span{row}));
  std::vector<T> out(rows.front().size());
  ops::reduce_rows(type, reduction, views, std::as_writable_bytes(std::span{out}));
  return out;
}

const Rank kTwo[] = {Rank{0}, Rank{1}};

}  // namespace

TEST_CASE("shards: the published table of lengths, with two detours") {
  using Lengths = std::vector<std::int64_t>;
  CHECK(lengths(1, 3) == Lengths{1, 0, 0});
  CHECK(lengths(2, 3) == Lengths{1, 1, 0});
  CHECK(lengths(3, 3) == Lengths{1, 1, 1});
  CHECK(lengths(4, 3) == Lengths{2, 2, 0});
  CHECK(lengths(5, 3) == Lengths{2, 2, 1});
  CHECK(lengths(10, 3) == Lengths{4, 4, 2});
  CHECK(lengths(11, 3) == Lengths{4, 4, 3});
  CHECK(lengths(8, 2) == Lengths{4, 4});
  CHECK(lengths(0, 3) == Lengths{0, 0, 0});
}

TEST_CASE("group: lenders ascend whatever the order of the members, and chunks lose no element") {
  const Rank members[] = {Rank{4}, Rank{1}};
  const DetourGroup group(members, 5);
  CHECK(group.size() == 2);
  CHECK(group.detours() == 3);
  CHECK(group.lender(0) == Rank{0});
  CHECK(group.lender(1) == Rank{2});
  CHECK(group.lender(2) == Rank{3});
  CHECK(group.memory_of(0, Rank{4}) == Rank{4});
  CHECK(group.memory_of(2, Rank{4}) == Rank{2});
  CHECK(group.position_of(Rank{4}) == 0);
  CHECK(group.position_of(Rank{1}) == 1);
  CHECK_FALSE(group.position_of(Rank{3}));
  // Of 23 elements the published one leaves out the last.
  CHECK(group.chunk(23, 0).size() == 12);
  CHECK(group.chunk(23, 1).first == 12);
  CHECK(group.chunk(23, 1).last == 23);
  CHECK(DetourGroup({}, 3).size() == 3);
  CHECK(DetourGroup({}, 3).detours() == 0);
}

TEST_CASE("group: a rank that does not exist, or twice") {
  const Rank beyond[] = {Rank{0}, Rank{2}};
  CHECK(DetourGroup::fault(beyond, 2) == "the group names rank 2; there are ranks 0 to 1");
  const Rank negative[] = {Rank{-1}};
  CHECK(DetourGroup::fault(negative, 2) == "the group names rank -1; there are ranks 0 to 1");
  const Rank twice[] = {Rank{1}, Rank{0}, Rank{1}};
  CHECK(DetourGroup::fault(twice, 2) == "the group names rank 1 twice: name each rank once");
  CHECK(DetourGroup::fault(kTwo, 2).empty());
  CHECK_THROWS_WITH_AS(DetourGroup(beyond, 2), doctest::Contains("the group names rank 2; there are ranks 0 to 1"),
                       ContractViolation);
}

TEST_CASE("slots: a pair has the same place in everybody's window, and no two pairs share a cache line") {
  const DetourGroup group(kTwo, 4);
  const DetourSlots slots(group, 22, Element::fp16);  // shards of 4 elements
  CHECK(slots.slot() == Bytes{64});
  CHECK(slots.size() == Bytes{256});
  CHECK(slots.place(0, 0) == Bytes{0});
  CHECK(slots.place(0, 1) == Bytes{64});
  CHECK(slots.place(1, 0) == Bytes{128});
  CHECK(DetourSlots(group, 2 * 3 * 33, Element::fp16).slot() == Bytes{128});
  CHECK(DetourSlots(group, 0, Element::fp32).size() == Bytes{0});
}

TEST_CASE("reduce: from the left, in fp32, rounded once") {
  using Floats = std::vector<float>;
  CHECK(reduced<float>(Element::fp32, Reduction::sum, {{1e8F}, {1.0F}, {-1e8F}}) == Floats{0.0F});
  CHECK(reduced<float>(Element::fp32, Reduction::sum, {{1e8F}, {-1e8F}, {1.0F}}) == Floats{1.0F});
  CHECK(reduced<float>(Element::fp32, Reduction::max, {{1, -2}, {3, -5}}) == Floats{3, -2});
  CHECK(reduced<float>(Element::fp32, Reduction::min, {{1, -2}, {3, -5}}) == Floats{1, -5});
  CHECK(std::signbit(reduced<float>(Element::fp32, Reduction::sum, {{-0.0F}, {-0.0F}})[0]));
  using Halves = std::vector<std::uint16_t>;
  // 2048 + 1 + 1 is 2050 in fp32; with a rounding to fp16 after each step it would stay 2048.
  CHECK(reduced<std::uint16_t>(Element::fp16, Reduction::sum, {{0x6800}, {0x3C00}, {0x3C00}}) == Halves{0x6801});
  CHECK(reduced<std::uint16_t>(Element::bf16, Reduction::sum, {{0x4380}, {0x3F80}, {0x3F80}}) == Halves{0x4381});
  CHECK(reduced<std::uint16_t>(Element::fp16, Reduction::sum, {{0x7BFF}, {0x7BFF}}) == Halves{0x7C00});
}

TEST_CASE("reduce: a NaN on the left stays, one on the right is passed over by max and min") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(reduced<float>(Element::fp32, Reduction::max, {{nan}, {1.0F}})[0]));
  CHECK(reduced<float>(Element::fp32, Reduction::max, {{1.0F}, {nan}})[0] == 1.0F);
  CHECK(reduced<float>(Element::fp32, Reduction::min, {{1.0F}, {nan}})[0] == 1.0F);
  CHECK(std::isnan(reduced<float>(Element::fp32, Reduction::sum, {{1.0F}, {nan}})[0]));
}

TEST_CASE("reduce: integers wrap") {
  using Ints = std::vector<std::int32_t>;
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  CHECK(reduced<std::int32_t>(Element::int32, Reduction::sum, {{kMost, 5}, {1, -7}}) == Ints{-kMost - 1, -2});
  CHECK(reduced<std::int32_t>(Element::int32, Reduction::max, {{kMost, -5}, {1, -7}}) == Ints{kMost, -5});
  CHECK(reduced<std::int32_t>(Element::int32, Reduction::min, {{kMost, -5}, {1, -7}}) == Ints{1, -7});
}

TEST_CASE("reduce: whole blocks and rests, any number of rows") {
  for (const std::size_t columns : {1U, 511U, 512U, 513U, 1024U, 1500U}) {
    std::vector<std::vector<std::int32_t>> rows(3, std::vector<std::int32_t>(columns));
    std::vector<std::int32_t> expected(columns);
    for (std::size_t i = 0; i < columns; ++i) {
      for (std::size_t k = 0; k < rows.size(); ++k) {
        rows[k][i] = static_cast<std::int32_t>(i * 31 + k * 1000);
        expected[i] += rows[k][i];
      }
    }
    CHECK(reduced<std::int32_t>(Element::int32, Reduction::sum, rows) == expected);
  }
  CHECK(reduced<std::int32_t>(Element::int32, Reduction::sum, {{1, 2}}) == std::vector<std::int32_t>{1, 2});
}

TEST_CASE("reduce: no rows, rows of other lengths, half an element") {
  std::byte out[6] = {};
  CHECK_THROWS_WITH_AS(ops::reduce_rows(Element::fp16, Reduction::sum, {}, out), doctest::Contains("no rows to reduce"),
                       ContractViolation);
  const std::byte row[4] = {};
  const std::span<const std::byte> rows[] = {row};
  CHECK_THROWS_WITH_AS(ops::reduce_rows(Element::fp16, Reduction::sum, rows, out),
                       doctest::Contains("a row of 4 bytes is reduced to 6"), ContractViolation);
  const std::byte whole[6] = {};
  const std::span<const std::byte> wholes[] = {whole};
  CHECK_THROWS_WITH_AS(ops::reduce_rows(Element::fp32, Reduction::sum, wholes, out),
                       doctest::Contains("6 bytes are no whole fp32 elements"), ContractViolation);
}
