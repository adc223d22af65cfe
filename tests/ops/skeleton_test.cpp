// The operator to copy.

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include "ops/skeleton.hpp"
#include "runtime/world.hpp"

using namespace shmoe;

namespace {

runtime::Config small_config(std::int32_t cores, bool views) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = cores;
  config.views = views;
  config.heap = Bytes{1U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  config.wait_limit = std::chrono::seconds(60);
  return config;
}

std::byte element(Rank rank, int call, std::size_t i) {
  return static_cast<std::byte>(rank.index() * 31 + static_cast<std::size_t>(call) * 7 + i);
}

/// Rotates `calls` rows and counts the bytes that are not the left neighbour's.
void check_rotation(std::int32_t ranks, std::int32_t cores, std::size_t length, int calls) {
  std::vector<int> wrong(static_cast<std::size_t>(ranks));
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<Offset> inbox = comm.allocate(Bytes{length + 1});
    if (!inbox) return inbox.error();
    const Rank left{(comm.rank().value() + ranks - 1) % ranks};
    std::vector<std::byte> row(length);
    for (int call = 0; call < calls; ++call) {
      for (std::size_t i = 0; i < length; ++i) row[i] = element(comm.rank(), call, i);
      if (Result<void> done = ops::rotate(comm, {.row = row, .inbox = *inbox}); !done) return done;
      const auto seen = comm.local<std::byte>(*inbox, length + 1);
      for (std::size_t i = 0; i < length; ++i) wrong[comm.rank().index()] += seen[i] != element(left, call, i);
      wrong[comm.rank().index()] += seen[length] != std::byte{0};
    }
    return comm.barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(ranks, small_config(cores, cores % 2 == 0), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  for (const int count : wrong) CHECK(count == 0);
}

}  // namespace

TEST_CASE("every rank receives its left neighbour's row") {
  check_rotation(1, 1, 10, 5);
  check_rotation(2, 3, 1000, 50);
  check_rotation(3, 4, 2, 50);
  check_rotation(5, 1, 0, 10);
  check_rotation(4, 2, 4097, 30);
}

TEST_CASE("rows of different lengths are refused on every rank, and the next call works") {
  std::vector<Errc> codes(3, Errc::ok);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<Offset> inbox = comm.allocate(Bytes{64});
    if (!inbox) return inbox.error();
    const std::vector<std::byte> row(comm.rank() == Rank{1} ? 32 : 64);
    const Result<void> refused = ops::rotate(comm, {.row = row, .inbox = *inbox});
    if (!refused) codes[comm.rank().index()] = refused.error().code;
    const std::vector<std::byte> good(64);
    return ops::rotate(comm, {.row = good, .inbox = *inbox});
  };
  const Result<void> done = runtime::World::run_as_threads(3, small_config(2, true), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  for (const Errc code : codes) CHECK(code == Errc::mismatch);
}
