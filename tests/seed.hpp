#pragma once
// Where the random numbers of a test begin. SHMOE_TEST_SEED=n repeats a run.

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>

#include <doctest/doctest.h>

namespace shmoe::test {

inline std::optional<std::uint64_t> given_seed() {
  const char* text = std::getenv("SHMOE_TEST_SEED");
  return text == nullptr ? std::nullopt : std::optional<std::uint64_t>{std::strtoull(text, nullptr, 10)};
}

/// The same in every run, for tests whose schedules differ anyway.
inline std::uint64_t seed_of_run() { return given_seed().value_or(20'260'701); }

/// Another one in every run, and told.
inline std::uint64_t fresh_seed() {
  const std::uint64_t seed = given_seed().value_or(std::random_device{}());
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  return seed;
}
inline std::mt19937 fresh_random() { return std::mt19937{static_cast<std::uint32_t>(fresh_seed())}; }

}  // namespace shmoe::test
