// The all-to-all over heads against its definition, element by element, on ranks that are threads.

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ops/tile/reverse_all2all.hpp"
#include "runtime/world.hpp"
#include "tests/runtime/pausing_fabric.hpp"

using namespace shmoe;
using ops::All2AllArgs;
using ops::All2AllShape;
using ops::All2AllTasks;
using ops::All2AllTiling;
using ops::Merge;

namespace {

struct All2AllCase {
  std::int32_t ranks = 2;
  std::int32_t cores = 2;
  All2AllShape shape = {};
  All2AllTiling tiling = {};
  Merge merge = Merge::none;
  std::int32_t programs = 0;
  bool views = true;
  std::uint64_t weak_seed = 0;
  int calls = 1;
};

std::string text_of(const All2AllCase& c) {
  return fmt::format(
      "ranks {} cores {} S {} H {} D {} {} bs {} bd {} B {} merge {} programs {} views {} weak {} calls {}", c.ranks,
      c.cores, c.shape.rows, c.shape.heads, c.shape.dim, name_of(c.shape.dtype), c.tiling.block_rows,
      c.tiling.block_dim, c.tiling.buffers, static_cast<int>(c.merge), c.programs, c.views, c.weak_seed, c.calls);
}

runtime::Config all2all_config(const All2AllCase& c) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = c.cores;
  config.views = c.views;
  config.weak_seed = c.weak_seed;
  config.heap = Bytes{8U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 1;
  config.wait_limit = std::chrono::seconds(60);
  config.declare_slots = [c](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    const All2AllTasks tasks(c.shape, c.tiling, map.shape.ranks);
    ops::declare_all2all(plan, map, c.tiling.buffers, tasks.per_peer());
  };
  return config;
}

/// Byte b of the element at (row, head, column) of the tensor that has all rows of a few heads, in a call.
std::byte byte_of(std::int64_t owner, std::int64_t row, std::int64_t head, std::int64_t column, std::int64_t b,
                  int call) {
  std::uint64_t x = static_cast<std::uint64_t>(owner * 1000003 + row * 10007 + head * 101 + column * 7 + b * 3 + call);
  x = (x ^ (x >> 13)) * 0x9E3779B97F4A7C15U;
  return static_cast<std::byte>(x >> 56);
}

using Tensor = std::vector<std::byte>;

/// What rank `owner` holds: [rows of all ranks, H, D] where it is long, else [S, heads of all ranks, D]. Element (other, s,
/// h, d) of it is that of `owner`'s exchange with `other`.
Tensor tensor_of(const All2AllCase& c, bool is_long, std::int64_t owner, int call, bool received) {
  const auto [S, H, D, dtype] = c.shape;
  const auto element = static_cast<std::int64_t>(size_of(dtype).value());
  Tensor tensor(static_cast<std::size_t>(S * c.ranks * H * D * element));
  for (std::int64_t other = 0; other < c.ranks; ++other) {
    for (std::int64_t s = 0; s < S; ++s) {
      for (std::int64_t h = 0; h < H; ++h) {
        for (std::int64_t d = 0; d < D; ++d) {
          const std::int64_t place =
              is_long ? ((other * S + s) * H + h) * D + d : (s * (H * c.ranks) + other * H + h) * D + d;
          // Row, head and column say where it lies at its sender.
          const std::int64_t sender = received ? other : owner;
          const std::int64_t to = received ? owner : other;
          for (std::int64_t b = 0; b < element; ++b) {
            tensor[static_cast<std::size_t>(place * element + b)] = byte_of(sender, to * S + s, h, d, b, call);
          }
        }
      }
    }
  }
  return tensor;
}

Result<void> call(runtime::Communicator& comm, bool reverse, const All2AllCase& c, const Tensor& x, Tensor& y,
                  Offset buffers) {
  const All2AllArgs args{.shape = c.shape,
                         .tiling = c.tiling,
                         .x = x,
                         .y = y,
                         .buffers = buffers,
                         .signals = comm.slots().family("all2all"),
                         .merge = c.merge,
                         .programs = c.programs};
  return reverse ? ops::reverse_all2all(comm, args) : ops::forward_all2all(comm, args);
}

bool all_free(runtime::Communicator& comm) {
  const shmem::SlotFamily& family = comm.slots().family("all2all");
  for (std::uint32_t i = 0; i < family.count(); ++i) {
    if (comm.local<std::uint64_t>(family.base + Bytes{shmem::kSlotStride * i}, 1)[0] != 0) return false;
  }
  return true;
}

/// Reverse and forward by turns, without anything in between; what went wrong, or nothing.
std::string run_case(const All2AllCase& c, const runtime::FabricDecorator& decorate = {}) {
  std::vector<std::string> faults(static_cast<std::size_t>(c.ranks));
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const All2AllTasks tasks(c.shape, c.tiling, c.ranks);
    const Result<Offset> buffers = comm.allocate(Bytes{tasks.buffer_bytes().value() + 8});
    if (!buffers) return buffers.error();
    std::string& fault = faults[comm.rank().index()];
    for (int i = 0; i < c.calls; ++i) {
      for (const bool reverse : {true, false}) {
        const Tensor x = tensor_of(c, reverse, comm.rank().value(), i, false);
        const Tensor expected = tensor_of(c, !reverse, comm.rank().value(), i, true);
        Tensor y(expected.size(), std::byte{0xEE});
        if (Result<void> done = call(comm, reverse, c, x, y, *buffers); !done) return done;
        if (y != expected) fault = fmt::format("rank {} call {} reverse {}: wrong", comm.rank(), i, reverse);
      }
    }
    if (Result<void> met = comm.barrier(); !met) return met;
    if (!all_free(comm)) fault += fmt::format(" rank {}: a slot is not 0 at the end", comm.rank());
    return {};
  };
  const Result<void> done = runtime::World::run_as_threads(c.ranks, all2all_config(c), body, decorate);
  std::string all = done ? "" : to_string(done.error());
  for (const std::string& fault : faults) all += fault;
  return all;
}

void check_case(const All2AllCase& c, const runtime::FabricDecorator& decorate = {}) {
  CAPTURE(text_of(c));
  CHECK(run_case(c, decorate) == "");
}

/// How each rank's call ends.
std::vector<std::string> errors_of(const All2AllCase& c, const std::function<void(Rank, All2AllCase&)>& change,
                                   std::size_t lost_bytes = 0) {
  std::vector<std::string> errors(static_cast<std::size_t>(c.ranks));
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<Offset> buffers = comm.allocate(Bytes{1U << 20});
    if (!buffers) return buffers.error();
    All2AllCase mine = c;
    if (change) change(comm.rank(), mine);
    const Tensor x = tensor_of(mine, true, comm.rank().value(), 0, false);
    Tensor y(x.size() - lost_bytes);
    const Result<void> refused = call(comm, true, mine, x, y, *buffers);
    if (!refused) errors[comm.rank().index()] = to_string(refused.error());
    Tensor good(tensor_of(c, true, 0, 0, false).size());
    return call(comm, true, c, tensor_of(c, true, comm.rank().value(), 0, false), good, *buffers);
  };
  const Result<void> done = runtime::World::run_as_threads(c.ranks, all2all_config(c), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  return errors;
}

void check_refused(const All2AllCase& c, const std::function<void(Rank, All2AllCase&)>& change, std::string_view part,
                   std::size_t lost_bytes = 0) {
  for (const std::string& error : errors_of(c, change, lost_bytes)) {
    CAPTURE(error);
    CHECK(error.find(part) != std::string::npos);
  }
}

const All2AllCase kSmall{.ranks = 3,
                         .cores = 2,
                         .shape = {.rows = 10, .heads = 2, .dim = 5},
                         .tiling = {.block_rows = 2, .block_dim = 3, .buffers = 2}};

}  // namespace

TEST_CASE("all2all: bitwise as defined, any ranks, cores and buffers, whole blocks or not") {
  for (const std::int32_t ranks : {1, 2, 3, 5, 7}) {
    for (const std::int32_t cores : {1, 2, 3, 4}) {
      for (const std::int32_t buffers : {1, 2, 3}) {
        All2AllCase c = kSmall;
        c.ranks = ranks;
        c.cores = cores;
        c.tiling.buffers = buffers;
        c.shape.rows = 2 * buffers * 3 + cores % 2;
        c.merge = (ranks + cores) % 2 == 0 ? Merge::none : Merge::blocks;
        c.views = buffers != 2;
        check_case(c);
      }
    }
  }
}

TEST_CASE("all2all: no rows, one row, fewer than a block; one head, one column, wide elements") {
  for (const std::int64_t rows : {0, 1, 3}) {
    for (const DType dtype : {DType::bf16, DType::fp32}) {
      All2AllCase c = kSmall;
      c.shape = {.rows = rows, .heads = 1, .dim = 1, .dtype = dtype};
      c.tiling = {.block_rows = 4, .block_dim = 8, .buffers = 2};
      check_case(c);
      c.shape.heads = 3;
      c.shape.dim = 9;
      check_case(c);
    }
  }
}

TEST_CASE("all2all: call after call without clearing a slot") {
  All2AllCase c = kSmall;
  c.calls = 20;
  check_case(c);
  c.merge = Merge::blocks;
  c.cores = 3;
  check_case(c);
}

TEST_CASE("all2all: fewer programs than cores, and more where they can end") {
  All2AllCase c = kSmall;
  c.cores = 4;
  c.programs = 1;
  check_case(c);
  c.programs = 2;
  check_case(c);
  c.programs = 3;
  check_case(c);
  c = {.ranks = 2,
       .cores = 2,
       .shape = {.rows = 8, .heads = 2, .dim = 3},
       .tiling = {.block_rows = 2, .block_dim = 3, .buffers = 2},
       .programs = 8,
       .calls = 3};
  check_case(c);
}

TEST_CASE("all2all: puts that land late, and pauses before every signal and wait") {
  const std::uint64_t seed = test::seed_of_run();
  CAPTURE(seed);
  All2AllCase c = kSmall;
  c.calls = 3;
  c.weak_seed = seed | 1;
  check_case(c);
  c.weak_seed = 0;
  check_case(c, test::pauses(seed));
}

TEST_CASE("all2all: random shapes") {
  const std::uint64_t seed = test::seed_of_run();
  MESSAGE("SHMOE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int run = 0; run < 60; ++run) {
    All2AllCase c;
    c.ranks = static_cast<std::int32_t>(from(1, 6));
    c.cores = static_cast<std::int32_t>(from(1, 5));
    c.shape = {.rows = from(0, 40), .heads = from(1, 4), .dim = from(1, 20), .dtype = DType::fp16};
    c.tiling = {.block_rows = from(1, 8), .block_dim = from(1, 21), .buffers = static_cast<std::int32_t>(from(1, 4))};
    c.merge = from(0, 1) == 0 ? Merge::none : Merge::blocks;
    c.views = from(0, 1) == 0;
    c.weak_seed = from(0, 3) == 0 ? random() | 1 : 0;
    c.calls = static_cast<int>(from(1, 3));
    check_case(c);
  }
}

TEST_CASE("all2all: what ranks do not agree on, and what is too small, is refused on all, and the next call works") {
  const auto of_rank_1 = [](auto set) {
    return [set](Rank rank, All2AllCase& c) {
      if (rank == Rank{1}) set(c);
    };
  };
  check_refused(kSmall, of_rank_1([](All2AllCase& c) { c.shape.heads = 1; }), "H is 1 on rank 1 and 2 on rank 0");
  check_refused(kSmall, of_rank_1([](All2AllCase& c) { c.tiling.block_rows = 3; }), "block rows is 3 on rank 1");
  check_refused(kSmall, of_rank_1([](All2AllCase& c) { c.merge = Merge::blocks; }), "merge is 1 on rank 1");
  check_refused(kSmall, of_rank_1([](All2AllCase& c) { c.programs = 1; }), "programs is 1 on rank 1 and 2 on rank 0");
  check_refused(
      kSmall, of_rank_1([](All2AllCase& c) { c.tiling.buffers = 3; }),
      "reverse_all2all: rank 1: the slots of all2all are 2 x 3 x 4; 3 buffers x 3 ranks x 4 tasks are needed");
  check_refused(kSmall, {}, "x has 600 bytes and y 590; S*R*H*D elements are 600", 10);
  check_refused(kSmall, of_rank_1([](All2AllCase& c) { c.tiling.block_dim = 0; }),
                "reverse_all2all: rank 1: blocks of 2 x 0");
}

TEST_CASE("all2all: programs that would wait for one that never begins are refused with the reason") {
  check_refused(
      kSmall, [](Rank, All2AllCase& c) { c.programs = 8; }, "8 programs on 2 cores would never end: program ");
  check_refused(
      kSmall, [](Rank, All2AllCase& c) { c.programs = 49; }, "49 programs: 1 to 48 are possible");
  // T83: nobody would send, and nobody would take.
  check_refused(
      kSmall, [](Rank, All2AllCase& c) { c.programs = -1; }, "-1 programs: 1 to 48 are possible");
}

TEST_CASE("all2all: slots that do not fit into the user data are refused with the sizes") {
  All2AllCase c = kSmall;
  c.shape.heads = 1000;
  try {
    (void)run_case(c);
    FAIL("no violation");
  } catch (const ContractViolation& e) {
    CHECK(std::string(e.what()).find(
              "all2all: 2 buffers x 3 ranks x 2000 tasks are 12000 slots of 32 bytes; from offset 0 "
              "on the user data have 102400 bytes") != std::string::npos);
  }
}
