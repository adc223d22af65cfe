#pragma once
// What the cores of a rank did last, as their event rings tell it.

#include <string>
#include <vector>

#include "runtime/diagnosis/sight.hpp"

namespace shmoe::runtime {

/// One kernel as one core ran it.
struct CoreLaunch {
  Core core;
  std::string op = {};
  std::uint64_t number = 0;        // CoreSight::launch of that time
  std::vector<Round> rounds = {};  // that it took in it
};

/// A signal as its sender has noted it.
struct SentSignal {
  Rank writer;
  Core core;
  Slot slot;
  Rank first;  // of the destinations
  std::int32_t destinations = 1;
  std::uint64_t value = 0;
  std::string op = {};
  std::uint64_t launch = 0;
  shmem::Time at{0};      // noted, a moment after the word was written
  std::string site = {};  // "a.cpp:12"

  [[nodiscard]] bool reaches(Rank owner) const;
};

/// Only as far back as the rings go.
struct RankHistory {
  std::vector<CoreLaunch> launches;    // core after core, the newest last
  std::vector<SentSignal> signals;     // core after core, as they were noted
  std::vector<std::string> operators;  // that core 0 launched, the newest last
};

/// Empty where `sight` has no events.
RankHistory history_of(const Sight& sight, Rank rank);

}  // namespace shmoe::runtime
