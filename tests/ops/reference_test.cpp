// The reference itself: worked numbers, and the small formats against shmem/number.hpp.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/ep/reference.hpp"
#include "shmem/number.hpp"
#include "tests/ops/example.hpp"

using namespace shmoe;
namespace reference = shmoe::ops::reference;

namespace {

std::uint16_t stored(DType dtype, float value) {
  std::byte bytes[2];
  reference::store(dtype, bytes, 0, value);
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, 2);
  return bits;
}

float loaded(DType dtype, std::uint16_t bits) {
  std::byte bytes[2];
  std::memcpy(bytes, &bits, 2);
  return reference::load(dtype, bytes, 0);
}

}  // namespace

TEST_CASE("every 16-bit pattern loads and stores as the project's own conversions do") {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const float as_bf16 = shmem::bf16_to_float(bits);
    const float as_fp16 = shmem::fp16_to_float(bits);
    if (std::isnan(as_bf16)) {
      REQUIRE(std::isnan(loaded(DType::bf16, bits)));
    } else {
      REQUIRE(std::bit_cast<std::uint32_t>(loaded(DType::bf16, bits)) == std::bit_cast<std::uint32_t>(as_bf16));
      REQUIRE(stored(DType::bf16, as_bf16) == bits);
    }
    if (std::isnan(as_fp16)) {
      REQUIRE(std::isnan(loaded(DType::fp16, bits)));
    } else {
      REQUIRE(std::bit_cast<std::uint32_t>(loaded(DType::fp16, bits)) == std::bit_cast<std::uint32_t>(as_fp16));
      REQUIRE(stored(DType::fp16, as_fp16) == bits);
    }
  }
}

TEST_CASE("two independent roundings agree on values between the representable ones") {
  std::uint64_t state = 12345;
  for (int i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(state >> 32));
    if (std::isnan(value)) continue;
    REQUIRE(stored(DType::bf16, value) == shmem::float_to_bf16(value));
    REQUIRE(stored(DType::fp16, value) == shmem::float_to_fp16(value));
    const float near_one = std::ldexp(value, -std::ilogb(value == 0.0F || std::isinf(value) ? 1.0F : value) - 14);
    if (std::isfinite(near_one)) REQUIRE(stored(DType::fp16, near_one) == shmem::float_to_fp16(near_one));
  }
  CHECK(stored(DType::bf16, 32.625F) == stored(DType::bf16, 32.5F));
  CHECK(stored(DType::bf16, 39.875F) == stored(DType::bf16, 40.0F));
  CHECK(stored(DType::fp16, 65520.0F) == 0x7C00);
  CHECK(stored(DType::fp16, 65519.0F) == 0x7BFF);
}

TEST_CASE("the reference gives the published tables of the worked example") {
  const reference::Answer answer = reference::solve(test::example_problem());
  using I32 = std::vector<std::int32_t>;
  using I64 = std::vector<std::int64_t>;
  CHECK(answer.num_tokens_per_expert == std::vector<I32>{{1, 1, 3, 1}, {2, 3, 0, 1}});
  CHECK(answer.num_tokens_per_rank == std::vector<I32>{{2, 3}, {3, 1}});
  CHECK(answer.is_token_in_rank == std::vector<I32>{{1, 1, 1, 1, 0, 1}, {1, 1, 1, 0, 1, 0}});
  CHECK(answer.send_token_idx == std::vector<I32>{{0, 0, 1, 0, 0, 2}, {0, 0, 0, 1, 2, 1}});
  CHECK(answer.recv_data == I32{1, 1, 3, 1, 2, 3, 0, 1});
  CHECK(answer.put_offset == I64{0, 1, 3, 4, 0, 3, 3, 4});
  CHECK(answer.total_recv_tokens == 7);
  CHECK(answer.max_bs == 3);
  CHECK(answer.recv_tokens_per_expert == std::vector<I64>{{3, 4}, {3, 2}});
  CHECK(answer.rows[0].size() == 7);
  CHECK(answer.rows[1].size() == 5);
  CHECK(answer.rows[0][6] == reference::Origin{1, 1, 2, 0});
}
