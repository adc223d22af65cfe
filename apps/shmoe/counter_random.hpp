#pragma once
// Random numbers by counter: a pure function of a key, so every rank can compute those of every other rank, in any
// order, on any platform.

#include <cstdint>
#include <initializer_list>

#include "shmem/hash.hpp"

namespace shmoe::apps {

constexpr std::uint64_t random_at(std::initializer_list<std::uint64_t> key) {
  std::uint64_t state = 0;
  for (const std::uint64_t part : key) state = shmem::scattered(state ^ part);
  return state;
}

}  // namespace shmoe::apps
