// The worked example, number by number.

#include <doctest/doctest.h>

#include "ops/ep/reference.hpp"
#include "tests/ops/example_run.hpp"

using namespace shmoe;
using I32 = std::vector<std::int32_t>;
using I64 = std::vector<std::int64_t>;

namespace {

std::vector<float> values(DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> out;
  for (std::size_t i = 0; i < bytes.size() / size_of(dtype).value(); ++i) {
    out.push_back(ops::reference::load(dtype, bytes, static_cast<std::int64_t>(i)));
  }
  return out;
}

I32 first_rows(const I32& table, std::size_t entries) {
  return {table.begin(), table.begin() + static_cast<std::ptrdiff_t>(entries)};
}

}  // namespace

TEST_CASE("worked example: layout and notify tables") {
  const auto ranks = test::run_example(DType::bf16);
  REQUIRE_MESSAGE(ranks, to_string(ranks.error()));
  const auto& [zero, one] = std::tie((*ranks)[0], (*ranks)[1]);
  CHECK(zero.num_tokens_per_expert == I32{1, 1, 3, 1});
  CHECK(one.num_tokens_per_expert == I32{2, 3, 0, 1});
  CHECK(zero.layout.num_tokens_per_rank == I32{2, 3});
  CHECK(one.layout.num_tokens_per_rank == I32{3, 1});
  CHECK(zero.layout.is_token_in_rank == I32{1, 1, 1, 1, 0, 1});
  CHECK(one.layout.is_token_in_rank == I32{1, 1, 1, 0, 1, 0});
  CHECK(zero.layout.send_token_idx == I32{0, 0, 1, 0, 0, 2});
  CHECK(one.layout.send_token_idx == I32{0, 0, 0, 1, 2, 1});
  // Three of the six cores have a token.
  CHECK(first_rows(zero.layout.notify_send_data, 12) == I32{1, 0, 1, 0, 1, 1, 2, 0, 1, 1, 3, 1});
  CHECK(first_rows(one.layout.notify_send_data, 12) == I32{0, 1, 0, 1, 1, 2, 0, 1, 2, 3, 0, 1});
  for (const test::ExampleRank& rank : *ranks) {
    CHECK(rank.notify.recv_data == I32{1, 1, 3, 1, 2, 3, 0, 1});
    CHECK(rank.notify.put_offset == I64{0, 1, 3, 4, 0, 3, 3, 4});
    CHECK(rank.notify.total_recv_tokens == 7);
    CHECK(rank.notify.max_bs == 3);
  }
  CHECK(zero.notify.recv_tokens_per_expert == I64{3, 4});
  CHECK(one.notify.recv_tokens_per_expert == I64{3, 2});
  CHECK(zero.notify.recv_rows == 7);
  CHECK(one.notify.recv_rows == 5);
}

TEST_CASE("worked example: rows and combined tokens") {
  const auto ranks = test::run_example(DType::bf16);
  REQUIRE_MESSAGE(ranks, to_string(ranks.error()));
  const auto row = [&](std::size_t rank, std::size_t index) {
    return values(DType::bf16, std::span{(*ranks)[rank].received}.subspan(index * 8, 8));
  };
  const float first[2][7] = {{1, 17, 21, 5, 13, 17, 21}, {1, 5, 9, 9, 13, 0, 0}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < (rank == 0 ? 7U : 5U); ++i) {
      const float x = first[rank][i];
      CHECK(row(rank, i) == std::vector<float>{x, x + 1, x + 2, x + 3});
    }
  }
  for (std::size_t i = 5 * 8; i < 7 * 8; ++i) CHECK((*ranks)[1].received[i] == std::byte{0xA5});
  CHECK(values(DType::bf16, (*ranks)[0].combined) ==
        std::vector<float>{1.5F, 3.0F, 4.5F, 6.0F, 12.5F, 15.0F, 17.5F, 20.0F, 32.5F, 36.25F, 40.0F, 43.5F});
  CHECK(values(DType::bf16, (*ranks)[1].combined) ==
        std::vector<float>{39.0F, 42.0F, 45.0F, 48.0F, 29.75F, 31.5F, 33.25F, 35.0F, 39.5F, 41.25F, 43.0F, 45.0F});
}

TEST_CASE("worked example: the fp32 sums before the last rounding") {
  const auto ranks = test::run_example(DType::fp32);
  REQUIRE_MESSAGE(ranks, to_string(ranks.error()));
  CHECK(values(DType::fp32, (*ranks)[0].combined) ==
        std::vector<float>{1.5F, 3.0F, 4.5F, 6.0F, 12.5F, 15.0F, 17.5F, 20.0F, 32.625F, 36.25F, 39.875F, 43.5F});
  CHECK(values(DType::fp32, (*ranks)[1].combined) ==
        std::vector<float>{39.0F, 42.0F, 45.0F, 48.0F, 29.75F, 31.5F, 33.25F, 35.0F, 39.375F, 41.25F, 43.125F, 45.0F});
}
