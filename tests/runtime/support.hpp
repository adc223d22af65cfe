#pragma once
// What the tests of runtime/ share: small jobs of threads whose every rank reports, and a fabric that stands in between.

#include <doctest/doctest.h>

#include <barrier>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/world.hpp"
#include "runtime/zero_buffer_sync.hpp"
#include "tests/runtime/contains.hpp"

namespace shmoe::runtime::test {

inline Config small_config(std::int32_t cores, const Profile& profile = kSafe) {
  Config config = Config::defaults();
  config.cores = cores;
  config.profile = profile;
  config.heap = Bytes{2U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 4;
  // So long that only a hang reaches it.
  config.wait_limit = std::chrono::seconds(60);
  config.bootstrap_timeout = std::chrono::seconds(60);
  return config;
}

/// How each rank ended; nothing where all was well.
using Outcomes = std::vector<std::optional<Error>>;

inline std::string text_of(const std::optional<Error>& error) { return error ? to_string(*error) : "no error"; }

template <class Body>
Outcomes run_ranks(std::int32_t ranks, const Config& config, const Body& body, const FabricDecorator& decorate = {}) {
  Outcomes outcomes(static_cast<std::size_t>(ranks), Error{.code = Errc::io, .context = "the body never ran"});
  const Result<void> result = World::run_as_threads(
      ranks, config,
      [&](World& world) -> Result<void> {
        Result<void> own = body(world);
        outcomes[world.rank().index()] = own ? std::nullopt : std::optional(own.error());
        return own;
      },
      decorate);
  bool all_well = true;
  for (const auto& outcome : outcomes) all_well &= !outcome;
  CHECK(result.has_value() == all_well);
  return outcomes;
}

inline void check_all_well(const Outcomes& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CAPTURE(rank);
    CHECK(text_of(outcomes[rank]) == "no error");
  }
}

/// Lets the ranks of a test meet outside the library.
using HostBarrier = std::barrier<>;

/// The creation of a communicator takes a round itself. Takes it back, so that words are those of a fresh region.
inline void start_from_zero(Communicator& comm, HostBarrier& ranks_meet) {
  ranks_meet.arrive_and_wait();
  const auto region = [&](const shmem::Region& r) {
    for (std::byte& b : comm.local<std::byte>(r.at, r.size.value())) b = std::byte{0};
  };
  region(comm.map().magic);
  region(comm.map().barrier);
  region(comm.map().flags);
  ranks_meet.arrive_and_wait();
}

inline void set_rounds(Communicator& comm, std::uint64_t value) {
  for (Core core{0}; core.value() < comm.cores(); ++core) {
    const auto rounds = comm.local<std::uint64_t>(comm.map().magic_of(core), 2);
    rounds[0] = rounds[1] = value;
  }
}

/// Goes on from `first`, or the next round of the same parity: that names the buffer whose words peers still read.
inline void jump_to(Communicator& comm, std::uint64_t first) {
  for (Core core{0}; core.value() < comm.cores(); ++core) {
    for (std::uint64_t& round : comm.local<std::uint64_t>(comm.map().magic_of(core), 2)) {
      round = first + ((first ^ round) & 1);
    }
  }
}
/// Just below 2^32 and 2^40.
inline constexpr std::uint64_t kLateRounds[] = {(std::uint64_t{1} << 32) - 3, (std::uint64_t{1} << 40) - 3};

}  // namespace shmoe::runtime::test
