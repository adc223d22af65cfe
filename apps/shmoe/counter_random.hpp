#pragma once
// Random numbers by counter: a pure function of a key, so every rank can compute those of every other rank, in any
// order, on any platform.

#include <cstdint>
#include <initializer_list>

namespace shmoe::apps {

/// Finaliser of splitmix64: every input bit reaches every output bit.
constexpr std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E37'79B9'7F4A'7C15U;
  value = (value ^ (value >> 30)) * 0xBF58'476D'1CE4'E5B9U;
  value = (value ^ (value >> 27)) * 0x94D0'49BB'1331'11EBU;
  return value ^ (value >> 31);
}

constexpr std::uint64_t random_at(std::initializer_list<std::uint64_t> key) {
  std::uint64_t state = 0;
  for (const std::uint64_t part : key) state = mixed(state ^ part);
  return state;
}

static_assert(mixed(0) == 0xE220'A839'7B1D'CDAFU, "first output of splitmix64 with seed 0");

}  // namespace shmoe::apps
