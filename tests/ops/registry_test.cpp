// The registry says what the operators do: their names, and the limits that they enforce.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/registry.hpp"
#include "ops/tile/reverse_all2all.hpp"
#include "tests/ops/afd_case.hpp"
#include "tests/ops/low_latency_fixture.hpp"

using namespace shmoe;
using runtime::Limit;
using runtime::Range;

namespace {

Limit limit_of(std::string_view op, std::string_view of) {
  const runtime::Registry registry = ops::all_operators();
  const auto entry = registry.find(op);
  REQUIRE_MESSAGE(entry, op);
  const auto& limits = (*entry)->limits;
  const auto found = std::ranges::find_if(limits, [&](const Limit& limit) { return limit.of == of; });
  REQUIRE_MESSAGE(found != limits.end(), of);
  return *found;
}

enum class Ends : std::uint8_t { beyond, accepted };

/// Just outside both ends, where they are ends, or the ends themselves.
std::vector<std::int64_t> ends_of(const Range& range, Ends which) {
  const std::int64_t step = which == Ends::beyond ? 1 : 0;
  std::vector<std::int64_t> values{range.least - step};
  if (range.most != Range::kAsMemoryGoes) values.push_back(range.most + step);
  return values;
}

/// Tries a call with each value, on threads as ranks, on which all agree.
using Attempt = std::function<Result<void>(runtime::Communicator&, std::int64_t)>;

void check_values(const std::vector<std::int64_t>& values, Ends expected, std::int32_t ranks,
                  const runtime::Config& config, const Attempt& call) {
  const auto body = [&](runtime::World& world) -> Result<void> {
    for (const std::int64_t value : values) {
      const Result<void> done = call(world.all(), value);
      CHECK_MESSAGE(done.has_value() == (expected == Ends::accepted), value);
      if (!done) CHECK_MESSAGE(done.error().code == Errc::invalid_argument, to_string(done.error()));
    }
    return world.all().barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(ranks, config, body);
  CHECK_MESSAGE(done, to_string(done.error()));
}

/// Two ranks without tokens: shapes may be as large as they like.
struct Empty {
  test::EpCase input = test::make_case(1, {.experts = 4, .topk = 2, .tokens = {0, 0}});
  runtime::Config config = test::config_for({}, test::heap_for({&input, 1}));
};

Result<void> fault_of(const ops::LayoutTables& tables) {
  return tables.fault ? Result<void>(*tables.fault) : Result<void>{};
}

Result<void> layout_with_topk(runtime::Communicator& comm, const Empty& empty, std::int64_t topk) {
  const auto room = test::allocate_room(comm, {&empty.input, 1});
  REQUIRE(room);
  const ops::Routing routing(static_cast<std::int32_t>(topk), {}, {});
  const ops::ExpertMap experts = empty.input.experts();
  ops::LayoutTables tables;
  const ops::LayoutArgs args{.routing = routing, .experts = experts, .num_tokens_per_expert = room->counts[0]};
  if (Result<void> done = ops::layout(comm, args, tables); !done) return done;
  return fault_of(tables);
}

Result<void> notify_with_alignment(runtime::Communicator& comm, const Empty& empty, std::int64_t alignment) {
  const auto room = test::allocate_room(comm, {&empty.input, 1});
  REQUIRE(room);
  test::Tables tables(empty.input, comm.rank());
  if (Result<void> done = test::run_layout(comm, room->counts[0], tables); !done) return done;
  return ops::notify(comm, {.layout = tables.layout, .experts = tables.experts, .expert_alignment = alignment},
                     tables.notify);
}

Result<void> rows_with_hidden(runtime::Communicator& comm, const Empty& empty, std::int64_t hidden, bool sends) {
  const auto room = test::allocate_room(comm, {&empty.input, 1});
  REQUIRE(room);
  const auto tables = test::run_tables(comm, empty.input, room->counts[0]);
  REQUIRE(tables);
  ops::DispatchArgs rows = test::dispatch_args(empty.input, *room, *tables, {});
  ops::CombineArgs sums = test::combine_args(empty.input, *room, *tables, {});
  rows.hidden = sums.hidden = hidden;
  return sends ? ops::dispatch_normal(comm, rows) : ops::combine_normal(comm, sums);
}

/// A low-latency dispatch of ranks without tokens, or the combine behind it, with other arguments.
void check_low_latency(std::string_view op, std::string_view of, Ends ends,
                       const std::function<void(ops::DispatchLowLatencyArgs&, std::int64_t)>& dispatch,
                       const std::function<void(ops::CombineLowLatencyArgs&, std::int64_t)>& combine = {}) {
  const test::LowLatencyCase input = test::plain_low_latency(1, {0, 0});
  const test::LowLatencyExpected expected = expect(input);
  for (const std::int64_t value : ends_of(limit_of(op, of).safe, ends)) {
    const std::string text = test::on_low_latency_ranks(input, {}, [&](test::LowLatencyBench& bench) -> Result<void> {
      ops::LowLatencyTables tables;
      test::LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
      ops::DispatchLowLatencyArgs rows = step.dispatch_args();
      if (dispatch) dispatch(rows, value);
      Result<void> done = ops::dispatch_low_latency(bench.comm, rows, tables);
      if (done && combine) {
        step.run_experts();
        step.clear_sums();
        ops::CombineLowLatencyArgs sums = step.combine_args();
        combine(sums, value);
        done = ops::combine_low_latency(bench.comm, sums);
      }
      CHECK_MESSAGE(done.has_value() == (ends == Ends::accepted), value);
      if (!done) CHECK_MESSAGE(done.error().code == Errc::invalid_argument, to_string(done.error()));
      return {};
    });
    CHECK(text == "");
  }
}

void check_refusal_says(const Result<void>& done, std::string_view part, Errc code = Errc::invalid_argument) {
  REQUIRE(!done);
  CHECK(done.error().code == code);
  CHECK_MESSAGE(done.error().context.find(part) != std::string::npos, to_string(done.error()));
}

using SetAfd = std::function<void(ops::AfdShape&, std::int64_t)>;

/// One expert rank and one attention rank with an empty batch.
Result<void> a2e_with(runtime::Communicator& comm, std::int64_t value, const SetAfd& set, bool fits) {
  ops::AfdShape shape{.ranks = *ops::Assignment::of(1, 1), .max_batch = 1, .hidden = 1, .topk = 1};
  set(shape, value);
  Offset window{0};
  if (fits) {
    const Result<Offset> at = comm.allocate(ops::afd_window_bytes(shape, comm.profile()));
    REQUIRE(at);
    window = *at;
  }
  const ops::AfdSignals signals = ops::afd_signals(comm.slots());
  const ops::AfdPlace place{.shape = shape, .window = window, .signals = signals};
  std::vector<std::byte> expand_x(
      fits && comm.rank() == Rank{0} ? static_cast<std::size_t>(shape.capacity(Rank{0})) * shape.row_bytes() : 0);
  ops::A2eTables tables;
  if (Result<void> done = ops::a2e(comm, {.place = place, .expand_x = expand_x}, tables); !done) return done;
  return ops::e2a(comm, {.place = place, .a2e = tables});
}

void check_afd(std::string_view of, const SetAfd& set) {
  runtime::Config config = test::afd_config(test::make_afd_case(1, {.experts = 1, .batches = {1}}), {});
  config.heap = Bytes{64U << 20};
  const Range range = limit_of("a2e", of).safe;
  CHECK(range == limit_of("e2a", of).safe);
  check_values(ends_of(range, Ends::beyond), Ends::beyond, 2, config,
               [&](auto& comm, std::int64_t value) { return a2e_with(comm, value, set, false); });
  check_values(ends_of(range, Ends::accepted), Ends::accepted, 2, config,
               [&](auto& comm, std::int64_t value) { return a2e_with(comm, value, set, true); });
}

using SetAll2All = std::function<void(ops::All2AllArgs&, std::int64_t)>;

void check_all2all(std::string_view of, const SetAll2All& set) {
  runtime::Config config = test::config_for({.cores = 2}, Bytes{1U << 20});
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    ops::declare_all2all(plan, map, 2, 1);
  };
  const Range range = limit_of("reverse_all2all", of).safe;
  CHECK(range == limit_of("forward_all2all", of).safe);
  for (const Ends ends : {Ends::beyond, Ends::accepted}) {
    check_values(ends_of(range, ends), ends, 2, config, [&](auto& comm, std::int64_t value) -> Result<void> {
      ops::All2AllArgs args{.shape = {.rows = 0},
                            .x = {},
                            .y = {},
                            .buffers = comm.map().heap.at,
                            .signals = comm.slots().family("all2all")};
      set(args, value);
      if (Result<void> done = ops::reverse_all2all(comm, args); !done) return done;
      return ops::forward_all2all(comm, args);
    });
  }
}

}  // namespace

TEST_CASE("the registered operators, in the order of a step") {
  const runtime::Registry registry = ops::all_operators();
  std::vector<std::string_view> names;
  for (const runtime::Operator& entry : registry.operators()) {
    names.push_back(entry.name);
    CHECK(std::ranges::count(entry.calls, entry.name) == 1);
    CHECK(!entry.does.empty());
    CHECK(!entry.stages.empty());
    CHECK(!entry.limits.empty());
    CHECK(!entry.needs.slots.empty());
    for (const std::string_view before : entry.needs.before) CHECK(registry.find(before).has_value());
  }
  CHECK(fmt::format("{}", fmt::join(names, " ")) ==
        "layout notify dispatch_normal combine_normal dispatch_low_latency combine_low_latency a2e e2a "
        "all_to_all_detour reduce_scatter_detour reverse_all2all forward_all2all rotate");
  const auto published = registry.find("moe_dispatch_normal_zb");
  REQUIRE(published);
  CHECK((*published)->name == "dispatch_normal");
  CHECK((*registry.find("combine_begin"))->name == "combine_low_latency");
}

TEST_CASE("sizes of an example call, counted by hand") {
  const runtime::Registry registry = ops::all_operators();
  const auto size = [&](std::string_view name, const runtime::CallShape& shape) {
    return (*registry.find(name))->workspace(shape);
  };
  // Of one core: 256 / 4 counts of 4 bytes; 2 x 256 numbers of 8; a row of 7168 int8.
  CHECK(size("layout", {}).own == Bytes{4 * 256});
  CHECK(size("notify", {}).own == Bytes{4 * 2 * 2048});
  CHECK(size("dispatch_normal", {}).own == Bytes{0});
  CHECK(size("dispatch_normal", {.int8_rows = true}).own == Bytes{4 * 7168});
  // 256 counts, the row and the same in fp32.
  CHECK(size("dispatch_low_latency", {.int8_rows = true}).own == Bytes{4 * (1024 + 7168 + 4 * 7168)});
  // 8 x 8 slots of a shard of 128 * 7168 / 8 bf16.
  CHECK(size("all_to_all_detour", {}).symmetric == Bytes{64 * (128 * 7168 / 8 * 2)});
  // 64 rows x 2 buffers of 8 ranks.
  CHECK(size("reverse_all2all", {}).symmetric == Bytes{2 * 64 * 8 * 7168 * 2});
  CHECK(size("rotate", {}) == runtime::WorkspaceSize{});
}

TEST_CASE("limits of the normal path are those that are enforced") {
  const Empty empty;
  const Range topk = limit_of("layout", "top-k").safe;
  check_values({topk.least - 1, 5}, Ends::beyond, 2, empty.config,
               [&](auto& comm, std::int64_t value) { return layout_with_topk(comm, empty, value); });
  check_values({topk.least, 4}, Ends::accepted, 2, empty.config,
               [&](auto& comm, std::int64_t value) { return layout_with_topk(comm, empty, value); });
  const Range alignment = limit_of("notify", "expert_alignment").safe;
  for (const Ends ends : {Ends::beyond, Ends::accepted}) {
    check_values(ends_of(alignment, ends), ends, 2, empty.config,
                 [&](auto& comm, std::int64_t value) { return notify_with_alignment(comm, empty, value); });
    for (const bool sends : {true, false}) {
      const Range hidden = limit_of(sends ? "dispatch_normal" : "combine_normal", "hidden").safe;
      check_values(ends_of(hidden, ends), ends, 2, empty.config,
                   [&](auto& comm, std::int64_t value) { return rows_with_hidden(comm, empty, value, sends); });
    }
  }
}

TEST_CASE("limits of the low-latency path are those that are enforced") {
  for (const Ends ends : {Ends::beyond, Ends::accepted}) {
    check_low_latency("dispatch_low_latency", "hidden", ends,
                      [](auto& args, std::int64_t value) { args.hidden = value; });
    check_low_latency("dispatch_low_latency", "tp_world_size", ends,
                      [](auto& args, std::int64_t value) { args.tp_world_size = static_cast<std::int32_t>(value); });
    check_low_latency("combine_low_latency", "tp_world_size", ends, {},
                      [](auto& args, std::int64_t value) { args.tp_world_size = static_cast<std::int32_t>(value); });
  }
  check_low_latency("dispatch_low_latency", "top-k", Ends::beyond,
                    [](auto& args, std::int64_t value) { args.topk = static_cast<std::int32_t>(value); });
  CHECK(limit_of("combine_low_latency", "hidden").safe == limit_of("dispatch_low_latency", "hidden").safe);
}

TEST_CASE("limits of the low-latency path that other arguments give: top-k, experts, capacity") {
  const test::LowLatencyCase input = test::plain_low_latency(1);
  const test::LowLatencyExpected expected = expect(input);
  const auto text = test::on_low_latency_ranks(input, {}, [&](test::LowLatencyBench& bench) -> Result<void> {
    ops::LowLatencyTables tables;
    test::LowLatencyStep step(bench.comm, input, expected, bench.rooms[0], tables);
    ops::DispatchLowLatencyArgs topk = step.dispatch_args();
    topk.topk = input.base.experts().experts() + 1;
    check_refusal_says(ops::dispatch_low_latency(bench.comm, topk, tables), "top-k is 7 of 6 experts");
    const auto region = ops::LowLatencyRegion::find(bench.comm.slots(), bench.comm.map());
    REQUIRE(region);
    const auto most = static_cast<std::int32_t>(region->most_columns());
    const ops::ExpertMap experts = ops::ExpertMap::even(2 * (most / 2 + 1), 2);
    const ops::DispatchLowLatencyArgs beyond{.x = topk.x,
                                             .dtype = topk.dtype,
                                             .hidden = topk.hidden,
                                             .expert_ids = topk.expert_ids,
                                             .topk = 2,
                                             .experts = experts,
                                             .expand_x = topk.expand_x,
                                             .capacity = topk.capacity};
    check_refusal_says(ops::dispatch_low_latency(bench.comm, beyond, tables), fmt::format("has room for {}", most));
    const Result<void> done = ops::dispatch_low_latency(bench.comm, step.dispatch_args(), tables);
    REQUIRE(done);
    step.run_experts();
    step.clear_sums();
    ops::CombineLowLatencyArgs sums = step.combine_args();
    --sums.capacity;
    check_refusal_says(ops::combine_low_latency(bench.comm, sums), "expert_out holds ", Errc::capacity_exceeded);
    ++sums.capacity;
    return ops::combine_low_latency(bench.comm, sums);
  });
  CHECK(text == "");
}

TEST_CASE("limits of attention and experts are those that are enforced") {
  check_afd("max_batch", [](ops::AfdShape& shape, std::int64_t value) { shape.max_batch = value; });
  check_afd("hidden", [](ops::AfdShape& shape, std::int64_t value) { shape.hidden = value; });
  check_afd("top-k", [](ops::AfdShape& shape, std::int64_t value) { shape.topk = static_cast<std::int32_t>(value); });
  CHECK(!ops::Assignment::of(static_cast<std::int32_t>(limit_of("a2e", "expert ranks").safe.least) - 1, 1));
  CHECK(!ops::Assignment::of(1, static_cast<std::int32_t>(limit_of("a2e", "attention ranks").safe.least) - 1));
}

TEST_CASE("a batch of a2e has max_batch rows at most, and cores are those of a rank") {
  CHECK(limit_of("a2e", "batch").safe == Range{0, limit_of("a2e", "max_batch").safe.most});
  const test::AfdCase input = test::make_afd_case(1, {.experts = 1, .batches = {3}});
  const auto body = [&](runtime::World& world) -> Result<void> {
    ops::AfdShape shape = input.shape();
    shape.max_batch = 2;
    const Result<Offset> window = world.all().allocate(ops::afd_window_bytes(shape, world.all().profile()));
    REQUIRE(window);
    const ops::AfdPlace place{.shape = shape, .window = *window, .signals = ops::afd_signals(world.all().slots())};
    std::vector<std::byte> expand_x(static_cast<std::size_t>(shape.capacity(Rank{0})) * shape.row_bytes());
    ops::A2eTables tables;
    check_refusal_says(ops::a2e(world.all(), test::a2e_args(input, place, world.rank(), expand_x), tables),
                       "a batch of 3 rows, max_batch is 2", Errc::capacity_exceeded);
    return world.all().barrier();
  };
  const Result<void> done = runtime::World::run_as_threads(2, test::afd_config(input, {}), body);
  CHECK_MESSAGE(done, to_string(done.error()));
  for (const std::string_view op : {"a2e", "e2a", "notify"}) {
    CHECK(limit_of(op, "cores").safe == Range{1, shmem::kMaxCores});
  }
}

TEST_CASE("limits of the collectives are those that are enforced") {
  const runtime::Config config = test::config_for({}, Bytes{1U << 20});
  for (const bool all_to_all : {true, false}) {
    const Range range = limit_of(all_to_all ? "all_to_all_detour" : "reduce_scatter_detour", "elements").safe;
    const auto call = [&](runtime::Communicator& comm, std::int64_t elements) {
      const ops::DetourShape shape{.elements = elements};
      return all_to_all ? ops::all_to_all_detour(comm, {.shape = shape})
                        : ops::reduce_scatter_detour(comm, {.shape = shape});
    };
    check_values(ends_of(range, Ends::beyond), Ends::beyond, 2, config, call);
    check_values({range.least}, Ends::accepted, 2, config, call);
  }
}

TEST_CASE("limits of the all-to-all over heads are those that are enforced") {
  check_all2all("S", [](ops::All2AllArgs& args, std::int64_t value) { args.shape.rows = value; });
  check_all2all("H", [](ops::All2AllArgs& args, std::int64_t value) { args.shape.heads = value; });
  check_all2all("D", [](ops::All2AllArgs& args, std::int64_t value) { args.shape.dim = value; });
  check_all2all("block_rows", [](ops::All2AllArgs& args, std::int64_t value) { args.tiling.block_rows = value; });
  check_all2all("block_dim", [](ops::All2AllArgs& args, std::int64_t value) { args.tiling.block_dim = value; });
  check_all2all("buffers", [](ops::All2AllArgs& args, std::int64_t value) {
    args.tiling.buffers = static_cast<std::int32_t>(value);
  });
  check_all2all("programs",
                [](ops::All2AllArgs& args, std::int64_t value) { args.programs = static_cast<std::int32_t>(value); });
}
