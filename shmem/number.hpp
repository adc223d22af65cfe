#pragma once
// bf16 and fp16 as bit patterns. These are the definition; the row kernels in copy.cpp must agree to the bit.

#include <bit>
#include <cstdint>

namespace shmoe::shmem {

inline constexpr std::uint32_t kFloatSign = 0x8000'0000U;
inline constexpr std::uint32_t kFloatInfinity = 0x7F80'0000U;

constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Rounds to nearest, ties to even. Infinities stay; a NaN stays a NaN and becomes quiet.
constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & ~kFloatSign) > kFloatInfinity) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t lowest_kept = (bits >> 16) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + lowest_kept) >> 16);
}

constexpr float fp16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 0x1FU ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (fraction << 13));
}

/// Rounds to nearest, ties to even. From 65520 on the result is infinite; below 2^-14 it is subnormal; a NaN becomes
/// the quiet NaN of its sign.
constexpr std::uint16_t float_to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & kFloatSign) >> 16;
  const std::uint32_t magnitude = bits & ~kFloatSign;
  std::uint32_t half = 0;
  if (magnitude > kFloatInfinity) {
    half = 0x7E00U;
  } else if (magnitude >= std::bit_cast<std::uint32_t>(0x1p16F)) {
    half = 0x7C00U;
  } else if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14F)) {
    // One unit in the last place of 0.5 is 2^-24, the subnormal step: the addition rounds.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    half = std::bit_cast<std::uint32_t>(rounded) - std::bit_cast<std::uint32_t>(0.5F);
  } else {
    const std::uint32_t lowest_kept = (magnitude >> 13) & 1U;
    half = (magnitude - ((127U - 15U) << 23) + 0xFFFU + lowest_kept) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace shmoe::shmem
