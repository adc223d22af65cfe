#pragma once
// Two ranks, four experts, three tokens a rank, two experts a token: small enough to follow every row by hand.
//
//   rank 0  token 0 -> experts 0 2    token 1 -> experts 2 1    token 2 -> experts 3 2
//   rank 1  token 0 -> experts 1 3    token 1 -> experts 0 1    token 2 -> experts 1 0
//   owner   experts 0 1: rank 0       experts 2 3: rank 1

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/ep/routing.hpp"
#include "shmem/number.hpp"
#include "shmem/types.hpp"

namespace shmoe::lesson {

inline constexpr std::int32_t kRanks = 2;
inline constexpr std::int32_t kExperts = 4;
inline constexpr std::int32_t kTokens = 3;
inline constexpr std::int32_t kTopk = 2;
inline constexpr std::int64_t kHidden = 4;

inline ops::Routing routing_of(Rank rank) {
  if (rank == Rank{0}) return ops::Routing(kTopk, {0, 2, 2, 1, 3, 2}, {.75F, .25F, .5F, .5F, .625F, .375F});
  return ops::Routing(kTopk, {1, 3, 0, 1, 1, 0}, {.5F, .5F, .25F, .75F, .875F, .125F});
}

/// The tokens of a rank as bf16 [T, H]: element h of token t is 12 rank + 4 t + h + 1, so each number occurs once.
inline std::vector<std::uint16_t> tokens_of(Rank rank) {
  std::vector<std::uint16_t> x;
  for (std::int32_t i = 1; i <= kTokens * kHidden; ++i) {
    x.push_back(shmem::float_to_bf16(static_cast<float>(12 * rank.value() + i)));
  }
  return x;
}

/// Rows that the operators hand out as bytes.
inline std::span<std::uint16_t> as_bf16(std::span<std::byte> rows) {
  return {reinterpret_cast<std::uint16_t*>(rows.data()), rows.size() / 2};
}

/// "1 2 3 4" from bf16.
inline std::string row_text(std::span<const std::uint16_t> row) {
  std::string text;
  for (const std::uint16_t bits : row) text += fmt::format(" {}", shmem::bf16_to_float(bits));
  return text.substr(1);
}

}  // namespace shmoe::lesson
