// The test to copy: against the reference in worlds of every kind, and each refusal with its text on every rank.

#include "ops/skeleton.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/world.hpp"
#include "tests/ops/refusal.hpp"

using namespace shmoe;

namespace {

using Rows = std::vector<std::vector<std::byte>>;

runtime::Config rotate_config(std::int32_t cores) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = cores;
  config.views = cores % 2 == 0;
  config.heap = Bytes{1U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  config.wait_limit = std::chrono::seconds(60);
  return config;
}

Rows rows_to_rotate(std::int32_t ranks, std::size_t length, int call) {
  Rows rows(static_cast<std::size_t>(ranks), std::vector<std::byte>(length));
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (std::size_t i = 0; i < length; ++i) {
      rows[rank][i] = static_cast<std::byte>(rank * 31 + static_cast<std::size_t>(call) * 7 + i);
    }
  }
  return rows;
}

/// Rotates `calls` times into the same inbox; the byte behind it stays zero.
void check_rotate(std::int32_t ranks, std::int32_t cores, std::size_t length, int calls) {
  std::vector<int> wrong(static_cast<std::size_t>(ranks));
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<Offset> inbox = comm.allocate(Bytes{length + 1});
    if (!inbox) return inbox.error();
    for (int call = 0; call < calls; ++call) {
      const Rows rows = rows_to_rotate(ranks, length, call);
      if (Result<void> done = ops::rotate(comm, {.row = rows[comm.rank().index()], .inbox = *inbox}); !done)
        return done;
      std::vector<std::byte> expected = ops::rotate_reference(rows)[comm.rank().index()];
      expected.push_back(std::byte{0});
      wrong[comm.rank().index()] += !std::ranges::equal(expected, comm.local<std::byte>(*inbox, length + 1));
    }
    return comm.barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(ranks, rotate_config(cores), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  CHECK(std::ranges::count(wrong, 0) == ranks);
}

/// Arguments of a rank, of an inbox of 64 bytes and a row of 64 bytes in own memory.
using RotateCall = std::function<ops::RotateArgs(runtime::Communicator& comm, Offset inbox, std::span<std::byte> row)>;

/// Every rank is told the same, nothing was written, and the next call works.
void check_rotate_refused(Errc code, std::string_view text, const RotateCall& args_of) {
  std::vector<std::optional<Error>> told(3);
  std::vector<int> written(3);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<Offset> inbox = comm.allocate(Bytes{64});
    if (!inbox) return inbox.error();
    std::vector<std::byte> row(64, std::byte{7});
    const Result<void> refused = ops::rotate(comm, args_of(comm, *inbox, row));
    if (!refused) told[comm.rank().index()] = refused.error();
    written[comm.rank().index()] = comm.local<std::byte>(*inbox, 1)[0] != std::byte{0};
    if (Result<void> met = comm.barrier(); !met) return met;
    return ops::rotate(comm, {.row = row, .inbox = *inbox});
  };
  const Result<void> done = runtime::World::run_as_threads(3, rotate_config(2), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  for (const std::optional<Error>& error : told) {
    REQUIRE(error.has_value());
    test::check_told(*error, code, text);
    CHECK(error->context == told[0]->context);
  }
  CHECK(std::ranges::count(written, 0) == 3);
}

}  // namespace

TEST_CASE("rotate: the reference, by hand") {
  const Rows rows = rows_to_rotate(3, 2, 0);
  CHECK(ops::rotate_reference(rows) == Rows{rows[2], rows[0], rows[1]});
  CHECK(ops::rotate_reference({}).empty());
}

TEST_CASE("rotate: every rank receives its left neighbour's row") {
  for (const std::int32_t ranks : {1, 2, 3, 7}) {
    for (const std::int32_t cores : {1, 2, 3}) {
      for (const std::size_t length : {0U, 1U, 2U, 1000U, 4097U}) check_rotate(ranks, cores, length, 5);
    }
  }
  check_rotate(2, 3, 1000, 50);
}

TEST_CASE("rotate: arguments on which ranks differ are refused on every rank") {
  check_rotate_refused(Errc::mismatch, "row bytes is 32 on rank 1 and 64 on rank 0",
                       [](auto& comm, Offset inbox, std::span<std::byte> row) {
                         return ops::RotateArgs{.row = row.first(comm.rank() == Rank{1} ? 32 : 64), .inbox = inbox};
                       });
  check_rotate_refused(Errc::mismatch, "inbox offset is", [](auto& comm, Offset inbox, std::span<std::byte> row) {
    return ops::RotateArgs{.row = row, .inbox = inbox + Bytes{comm.rank() == Rank{2} ? 64U : 0U}};
  });
}

TEST_CASE("rotate: what one rank alone has wrong is told on every rank") {
  check_rotate_refused(Errc::invalid_argument, "rank 2: inbox: 64 rows of 1 bytes at offset",
                       [](auto& comm, Offset inbox, std::span<std::byte> row) {
                         return ops::RotateArgs{.row = row,
                                                .inbox = comm.rank() == Rank{2} ? comm.map().flags.at : inbox};
                       });
  check_rotate_refused(Errc::invalid_argument, "rank 1: row and inbox share 1 bytes",
                       [](auto& comm, Offset inbox, std::span<std::byte> row) {
                         if (comm.rank() != Rank{1}) return ops::RotateArgs{.row = row, .inbox = inbox};
                         const auto over = comm.template local<std::byte>(inbox + Bytes{63}, 64);
                         return ops::RotateArgs{.row = over, .inbox = inbox};
                       });
}
