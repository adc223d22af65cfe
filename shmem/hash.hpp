#pragma once
// Hashes that come out the same in every process, so that ranks can compare them.

#include <cstdint>
#include <string_view>

namespace shmoe::shmem {

inline constexpr std::uint64_t kFnvStart = 0xCBF2'9CE4'8422'2325U;

/// One step of FNV-1a, over a byte or a whole word.
constexpr std::uint64_t fnv1a(std::uint64_t hash, std::uint64_t word) { return (hash ^ word) * 0x100'0000'01B3U; }
/// FNV-1a over the bytes of a text.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvStart) {
  for (const char c : text) hash = fnv1a(hash, static_cast<unsigned char>(c));
  return hash;
}
static_assert(fnv1a("a") == 0xAF63'DC4C'8601'EC8CU);

/// A bijection; neighbouring words give unrelated results. Source: SplitMix64, Steele, Lea and Flood 2014.
constexpr std::uint64_t scattered(std::uint64_t word) {
  word += 0x9E37'79B9'7F4A'7C15U;
  word = (word ^ (word >> 30)) * 0xBF58'476D'1CE4'E5B9U;
  word = (word ^ (word >> 27)) * 0x94D0'49BB'1331'11EBU;
  return word ^ (word >> 31);
}
static_assert(scattered(0) == 0xE220'A839'7B1D'CDAFU, "first output of SplitMix64 with seed 0");

}  // namespace shmoe::shmem
