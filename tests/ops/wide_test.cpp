// Offsets beyond 32 bits: blocks of many GiB of which a few pages are ever touched. Alignment pushes rows far apart.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "ops/ep/rows.hpp"
#include "tests/ops/ep_fixture.hpp"

using namespace shmoe;
using test::EpCase;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Rows at the start of the heap, whose memory is not allocated: the heap would commit every page of it.
Result<std::string> run_rank(runtime::Communicator& comm, const EpCase& input, const test::Expected& expected) {
  test::Tables tables(input, comm.rank());
  const Offset counts = comm.map().user_data.at;
  if (Result<void> counted = test::run_layout(comm, counts, tables); !counted) return counted.error();
  if (Result<void> told = test::run_notify(comm, input, tables); !told) return told.error();
  test::Room room;
  room.recv_x = room.expert_out = comm.map().heap.at;
  std::vector<std::byte> x = input.tokens_of(comm.rank().value());
  if (Result<void> sent = ops::dispatch_normal(comm, test::dispatch_args(input, room, tables, x)); !sent) {
    return sent.error();
  }
  // The experts hand their rows on, so combine reads what dispatch wrote: each token comes back, times two.
  if (Result<void> summed = ops::combine_normal(comm, test::combine_args(input, room, tables, x)); !summed) {
    return summed.error();
  }
  const auto& rows = expected.answer.rows[comm.rank().index()];
  const std::size_t size = input.row_bytes();
  std::size_t received = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].padding()) continue;
    const auto token = static_cast<std::size_t>(rows[row].token) * size;
    const std::vector<std::byte> sent = input.tokens_of(rows[row].source);
    const auto here = comm.local<std::byte>(room.recv_x + Bytes{size} * row, size);
    if (!std::equal(here.begin(), here.end(), sent.begin() + static_cast<std::ptrdiff_t>(token))) {
      return fmt::format("row {} is wrong", row);
    }
    ++received;
  }
  if (tables.notify.recv_rows != static_cast<std::int64_t>(received)) return std::string{"rows are missing"};
  const std::vector<std::byte> own = input.tokens_of(comm.rank().value());
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(own.size() / 2); ++j) {
    const float twice = 2 * ops::reference::load(DType::bf16, own, j);
    if (ops::reference::load(DType::bf16, x, j) != twice) return fmt::format("combined element {} is wrong", j);
  }
  return std::string{};
}

/// Two ranks of two experts; each token goes to both experts of the other rank.
void check_far_rows(std::int64_t alignment, std::uint64_t last_row_at) {
  const EpCase input = test::make_case(
      37, {.experts = 4, .topk = 2, .hidden = 16384, .tokens = {2, 1}, .weights = false, .alignment = alignment},
      [](std::int64_t rank, std::int64_t, std::int64_t k) { return 2 * (1 - rank) + k; });
  const test::Expected expected{
      .answer = ops::reference::solve(input.problem), .received = {}, .scales = {}, .combined = {}, .gradients = {}};
  CHECK(static_cast<std::uint64_t>(expected.answer.put_offset[1 * 2 + 1]) * input.row_bytes() == last_row_at);
  const std::uint64_t rows = static_cast<std::uint64_t>(expected.answer.total_recv_tokens) * input.row_bytes();
  std::vector<std::string> found(2, "not run");
  const Result<void> done = runtime::World::run_as_threads(
      2, test::config_for({.cores = 2}, Bytes{rows}), [&](runtime::World& world) -> Result<void> {
        Result<std::string> own = run_rank(world.all(), input, expected);
        if (!own) return own.error();
        found[world.rank().index()] = *own;
        return world.all().barrier();
      });
  REQUIRE_MESSAGE(done, to_string(done.error()));
  CHECK(found == std::vector<std::string>(2));
}

}  // namespace

TEST_CASE("T37: rows of 32 KiB more than 4 GiB into the buffer") { check_far_rows((1 << 17) + 1, 4 * kGiB + 32768); }

TEST_CASE("T37: 2^19 rows, 16 GiB") { check_far_rows(1 << 18, 8 * kGiB); }

TEST_CASE("T38: a row just beyond 2 GiB") { check_far_rows((1 << 16) + 1, 2 * kGiB + 32768); }

TEST_CASE("T40: rows around the widths of narrow fields keep their number") {
  const ops::ExpertMap experts = ops::ExpertMap::even(1, 1);
  ops::LayoutTables layout;
  ops::NotifyTables notify;
  layout.topk = 1;
  layout.send_token_idx = {0, 1, 2};
  notify.recv_data = {3};
  notify.owner_map = experts.hash();
  const std::vector<std::int32_t> ids = {0, 0, 0};
  for (const int bits : {8, 13, 16, 31, 32, 40}) {
    notify.put_offset = {(std::int64_t{1} << bits) - 1};
    const ops::RowMap rows(Rank{0}, ids, experts, layout, notify);
    CHECK(!rows.fault());
    for (std::int64_t pair = 0; pair < 3; ++pair) CHECK(rows.of(pair)->row == (std::int64_t{1} << bits) - 1 + pair);
  }
}
