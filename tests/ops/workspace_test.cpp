// The two phases of a call: with exactly the workspace that an operator asks for it does what it does without one, and
// with one byte less it is refused on every rank, with both sizes. Views are off, so that rows need their room.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/registry.hpp"
#include "ops/skeleton.hpp"
#include "ops/tile/reverse_all2all.hpp"
#include "tests/ops/afd_case.hpp"
#include "tests/ops/low_latency_fixture.hpp"

using namespace shmoe;
using runtime::WorkspaceSize;
using Bytestring = std::vector<std::byte>;

namespace {

constexpr std::size_t kGuard = 64;

/// What a registered operator says of a call that has no tensors yet.
WorkspaceSize estimate(std::string_view name, const runtime::CallShape& shape) {
  const runtime::Registry registry = ops::all_operators();
  const auto entry = registry.find(name);
  REQUIRE_MESSAGE(entry, name);
  return (*entry)->workspace(shape);
}

/// Memory of a rank for a call, with guard bytes behind.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(Bytes size) : size_(size.index()), bytes_(size_ + kGuard, test::kCanary) {}

  [[nodiscard]] std::span<std::byte> exact() { return std::span{bytes_}.first(size_); }
  [[nodiscard]] std::span<std::byte> one_less() { return std::span{bytes_}.first(size_ == 0 ? 0 : size_ - 1); }
  [[nodiscard]] std::string fault() const {
    const auto used = bytes_.begin() + static_cast<std::ptrdiff_t>(size_);
    const auto canaries = [](auto from, auto to) { return std::count(from, to, test::kCanary) == to - from; };
    if (!canaries(used, bytes_.end())) return "written behind the workspace";
    if (size_ > 0 && canaries(bytes_.begin(), used)) return "the workspace was not used";
    return {};
  }

 private:
  std::size_t size_;
  Bytestring bytes_;
};

Error told(const std::string& text) { return Error{.code = Errc::mismatch, .context = text}; }

/// `run(args)` calls the operator. Some rank needs a workspace.
template <class Args, class Run>
Result<void> in_two_phases(runtime::Communicator& comm, Args args, const Run& run) {
  const Bytes size = workspace_size(comm, args).own;
  GuardedWorkspace memory(size);
  args.workspace = memory.one_less();
  const Result<void> refused = run(args);
  if (refused) return told("one byte less was taken");
  if (refused.error().code != Errc::invalid_argument) return refused.error();
  const std::string figures = fmt::format("the workspace has {} bytes, {} are needed", size.value() - 1, size);
  if (size > Bytes{0} && refused.error().where == comm.rank() &&
      refused.error().context.find(figures) == std::string::npos) {
    return refused.error();
  }
  if (refused.error().context.find(" are needed, ") == std::string::npos) return refused.error();
  args.workspace = memory.exact();
  if (Result<void> done = run(args); !done) return done;
  if (std::string fault = memory.fault(); !fault.empty()) return told(fault);
  return {};
}

Result<void> same(std::string_view what, const Bytestring& expected, const Bytestring& seen) {
  if (expected == seen) return {};
  return told(fmt::format("{} differs", what));
}

Result<void> same(std::string_view what, const WorkspaceSize& expected, const WorkspaceSize& seen) {
  if (expected == seen) return {};
  return told(fmt::format("{}: the registry says {} symmetric and {} own bytes, the call needs {} and {}", what,
                          expected.symmetric, expected.own, seen.symmetric, seen.own));
}

#define PASS_ON(call) \
  if (Result<void> passed = (call); !passed) return passed

/// Layout, notify, dispatch and combine of a rank.
Result<void> normal_path(runtime::Communicator& comm, const test::EpCase& input, const test::Expected& expected) {
  const auto room = test::allocate_room(comm, {&input, 1});
  if (!room) return room.error();
  test::Tables tables(input, comm.rank());
  const runtime::CallShape shape{.ranks = comm.ranks(),
                                 .cores = comm.cores(),
                                 .experts = input.problem.experts,
                                 .topk = input.problem.topk,
                                 .hidden = input.hidden,
                                 .dtype = input.dtype,
                                 .int8_rows = input.quant == ops::Quant::int8};

  const ops::LayoutArgs counts{
      .routing = tables.routing, .experts = tables.experts, .num_tokens_per_expert = room->counts[0]};
  PASS_ON(same("layout", estimate("layout", shape), workspace_size(comm, counts)));
  PASS_ON(in_two_phases(comm, counts, [&](const ops::LayoutArgs& args) -> Result<void> {
    if (Result<void> begun = ops::layout(comm, args, tables.layout); !begun) return begun;
    return tables.layout.fault ? Result<void>(*tables.layout.fault) : Result<void>{};
  }));

  const ops::NotifyArgs places{.layout = tables.layout, .experts = tables.experts};
  PASS_ON(same("notify", estimate("notify", shape), workspace_size(comm, places)));
  PASS_ON(
      in_two_phases(comm, places, [&](const ops::NotifyArgs& args) { return ops::notify(comm, args, tables.notify); }));

  const Bytestring x = input.tokens_of(comm.rank().value());
  const ops::DispatchArgs rows = test::dispatch_args(input, *room, tables, x);
  PASS_ON(same("dispatch", estimate("dispatch_normal", shape), workspace_size(comm, rows)));
  PASS_ON(in_two_phases(comm, rows, [&](const ops::DispatchArgs& args) { return ops::dispatch_normal(comm, args); }));
  const Bytestring& arrived = expected.received[comm.rank().index()];
  const auto seen = comm.local<std::byte>(room->recv_x, arrived.size());
  PASS_ON(same("recv_x", arrived, {seen.begin(), seen.end()}));

  Bytestring without(x.size());
  Bytestring with(x.size());
  const auto answers = comm.local<std::byte>(
      room->expert_out, static_cast<std::size_t>(tables.notify.total_recv_tokens) * input.row_bytes());
  std::ranges::fill(answers, std::byte{0x3C});
  PASS_ON(ops::combine_normal(comm, test::combine_args(input, *room, tables, without)));
  const ops::CombineArgs sums = test::combine_args(input, *room, tables, with);
  PASS_ON(same("combine", estimate("combine_normal", shape), workspace_size(comm, sums)));
  PASS_ON(in_two_phases(comm, sums, [&](const ops::CombineArgs& args) { return ops::combine_normal(comm, args); }));
  PASS_ON(same("x", without, with));
  return comm.barrier();
}

/// Dispatch and combine of a rank, whole and in halves.
Result<void> low_latency_path(test::LowLatencyBench& bench, const test::LowLatencyCase& input,
                              const test::LowLatencyExpected& expected) {
  runtime::Communicator& comm = bench.comm;
  const runtime::CallShape shape{.ranks = comm.ranks(),
                                 .cores = comm.cores(),
                                 .experts = input.base.problem.experts,
                                 .topk = input.base.problem.topk,
                                 .hidden = input.base.hidden,
                                 .dtype = input.base.dtype,
                                 .int8_rows = input.base.quant == ops::Quant::int8};
  for (const bool whole : {true, false}) {
    ops::LowLatencyTables tables;
    test::LowLatencyStep step(comm, input, expected, bench.rooms[whole ? 0 : 1], tables);
    step.clear_rows();
    const ops::DispatchLowLatencyArgs rows = step.dispatch_args();
    PASS_ON(same("dispatch", estimate("dispatch_low_latency", shape), workspace_size(comm, rows)));
    PASS_ON(in_two_phases(comm, rows, [&](const ops::DispatchLowLatencyArgs& args) -> Result<void> {
      if (whole) return ops::dispatch_low_latency(comm, args, tables);
      if (Result<void> begun = ops::dispatch_begin(comm, args, tables); !begun) return begun;
      return ops::dispatch_finish(comm, tables);
    }));
    if (std::string text = step.received_difference(); !text.empty()) return told(text);
    step.run_experts();
    step.clear_sums();
    const ops::CombineLowLatencyArgs sums = step.combine_args();
    PASS_ON(same("combine", estimate("combine_low_latency", shape), workspace_size(comm, sums)));
    PASS_ON(in_two_phases(comm, sums, [&](const ops::CombineLowLatencyArgs& args) -> Result<void> {
      if (whole) return ops::combine_low_latency(comm, args);
      if (Result<void> begun = ops::combine_begin(comm, args); !begun) return begun;
      return ops::combine_finish(comm, args);
    }));
    if (std::string text = step.sums_difference(); !text.empty()) return told(text);
  }
  return {};
}

/// a2e and e2a of a rank: first without a workspace.
Result<void> afd_path(runtime::Communicator& comm, const test::AfdCase& input) {
  const ops::AfdShape shape = input.shape();
  const bool expert = shape.ranks.is_expert(comm.rank());
  const auto answers = test::afd_answers(input);
  const Result<Offset> window = comm.allocate(ops::afd_window_bytes(shape, comm.profile()));
  if (!window) return window.error();
  const ops::AfdSignals signals = ops::afd_signals(comm.slots());
  const ops::AfdPlace place{.shape = shape, .window = *window, .signals = signals};
  ops::A2eTables tables;
  Bytestring plain(expert ? static_cast<std::size_t>(shape.capacity(comm.rank())) * shape.sent_row_bytes() : 0);
  Bytestring expand_x(plain.size());
  PASS_ON(ops::a2e(comm, test::a2e_args(input, place, comm.rank(), plain), tables));
  const ops::A2eArgs batch = test::a2e_args(input, place, comm.rank(), expand_x);
  PASS_ON(in_two_phases(comm, batch, [&](const ops::A2eArgs& args) { return ops::a2e(comm, args, tables); }));
  PASS_ON(same("expand_x", plain, expand_x));
  if (workspace_size(comm, batch).symmetric != ops::afd_window_bytes(shape, comm.profile())) return told("window");

  Bytestring x(expert ? 0 : batch.x.size());
  Bytestring again(x.size());
  const auto own = expert ? std::span<const std::byte>{answers[comm.rank().index()]} : std::span<const std::byte>{};
  PASS_ON(ops::e2a(comm, test::e2a_args(input, place, tables, comm.rank(), own, x)));
  const ops::E2aArgs back = test::e2a_args(input, place, tables, comm.rank(), own, again);
  PASS_ON(in_two_phases(comm, back, [&](const ops::E2aArgs& args) { return ops::e2a(comm, args); }));
  PASS_ON(same("x", x, again));
  return comm.barrier();
}

Result<void> run_ranks(std::int32_t ranks, const runtime::Config& config,
                       const std::function<Result<void>(runtime::Communicator&)>& body) {
  return runtime::World::run_as_threads(ranks, config, [&](runtime::World& world) { return body(world.all()); });
}

runtime::Config collective_config(std::int32_t cores) {
  runtime::Config config = test::config_for({.cores = cores, .views = false}, Bytes{1U << 20});
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    ops::declare_all2all(plan, map, 2, 3);
  };
  return config;
}

Bytestring numbers(std::size_t size, Rank rank) {
  Bytestring x(size);
  for (std::size_t i = 0; i < size; ++i) x[i] = static_cast<std::byte>(i * 13 + rank.index() * 7);
  return x;
}

constexpr Rank kPair[] = {Rank{2}, Rank{0}};

/// An all-to-all of ranks 2 and 0 by way of the others, to symmetric memory.
Result<void> all_to_all_path(runtime::Communicator& comm, const shmem::Region& window, Offset tensor,
                             std::int64_t elements) {
  const bool member = comm.rank() == kPair[0] || comm.rank() == kPair[1];
  const Bytestring x = numbers(member ? static_cast<std::size_t>(elements) * 4 : 0, comm.rank());
  ops::AllToAllArgs args{
      .shape = {.members = kPair, .type = ops::Element::int32, .elements = elements, .window = window},
      .x = x,
      .y_at = tensor};
  const auto run = [&](const ops::AllToAllArgs& call) { return ops::all_to_all_detour(comm, call); };
  args.shape.window.size = workspace_size(comm, args).symmetric;
  PASS_ON(run(args));
  const auto y = comm.local<std::byte>(tensor, static_cast<std::size_t>(elements) * 4);
  const Bytestring plain{y.begin(), y.end()};
  std::ranges::fill(y, std::byte{0});
  PASS_ON(in_two_phases(comm, args, run));
  PASS_ON(same("y", plain, {y.begin(), y.end()}));
  const std::uint64_t needed = args.shape.window.size.value();
  args.shape.window.size = Bytes{needed - 1};
  const Result<void> refused = run(args);
  if (refused) return told("a window with one byte less was taken");
  const std::string figures = fmt::format("are {} bytes, the ipc window has {}", needed, needed - 1);
  if (refused.error().context.find(figures) == std::string::npos) return refused.error();
  return comm.barrier();
}

/// The same of a reduce-scatter, from own or symmetric memory.
Result<void> reduce_scatter_path(runtime::Communicator& comm, const shmem::Region& window,
                                 const std::optional<Offset>& x_at, std::int64_t elements,
                                 std::span<const Rank> members) {
  const bool member = members.empty() || std::ranges::count(members, comm.rank()) > 0;
  const std::size_t positions = members.empty() ? static_cast<std::size_t>(comm.ranks()) : members.size();
  const Bytestring x = numbers(member ? static_cast<std::size_t>(elements) * 4 : 0, comm.rank());
  Bytestring y(member ? x.size() / positions : 0);
  Bytestring again(y.size());
  ops::ReduceScatterArgs args{
      .shape = {.members = members, .type = ops::Element::int32, .elements = elements, .window = window}, .y = y};
  if (!x_at) args.x = x;
  if (x_at) args.x_at = x_at;
  if (x_at) std::ranges::copy(x, comm.local<std::byte>(*x_at, x.size()).begin());
  args.shape.window.size = workspace_size(comm, args).symmetric;
  const auto run = [&](const ops::ReduceScatterArgs& call) { return ops::reduce_scatter_detour(comm, call); };
  PASS_ON(run(args));
  args.y = again;
  PASS_ON(in_two_phases(comm, args, run));
  PASS_ON(same("y", y, again));
  return comm.barrier();
}

}  // namespace

TEST_CASE("the normal path in two phases") {
  for (const std::int32_t cores : {1, 3}) {
    for (const DType dtype : {DType::bf16, DType::fp32}) {
      const test::EpCase input = test::make_case(
          11, {.experts = 7, .topk = 3, .hidden = 70, .dtype = dtype, .tokens = {9, 4, 6}, .quant = ops::Quant::int8});
      const test::Expected expected = test::expect(input);
      const auto done = run_ranks(3, test::config_for({.cores = cores, .views = false}, test::heap_for({&input, 1})),
                                  [&](runtime::Communicator& comm) { return normal_path(comm, input, expected); });
      CHECK_MESSAGE(done, to_string(done.error()));
    }
  }
}

TEST_CASE("the low-latency path in two phases, whole and in halves") {
  for (const std::int32_t cores : {1, 2}) {
    const test::LowLatencyCase input{
        .base =
            test::make_case(5, {.experts = 6, .topk = 2, .hidden = 33, .tokens = {8, 5}, .quant = ops::Quant::int8})};
    const test::LowLatencyExpected expected = expect(input);
    CHECK(test::on_low_latency_ranks(input, {.cores = cores, .views = false}, [&](test::LowLatencyBench& bench) {
            return low_latency_path(bench, input, expected);
          }) == "");
  }
}

TEST_CASE("attention and experts in two phases") {
  const test::AfdCase input =
      test::make_afd_case(3, {.experts = 2, .batches = {5, 4, 6}, .hidden = 40, .topk = 3, .quant = ops::Quant::int8});
  const auto done = run_ranks(input.ranks(), test::afd_config(input, {.cores = 2, .views = false}),
                              [&](runtime::Communicator& comm) { return afd_path(comm, input); });
  CHECK_MESSAGE(done, to_string(done.error()));
}

TEST_CASE("a window for attention and experts may end where the heap ends, and not behind") {
  const test::AfdCase input = test::make_afd_case(3, {.experts = 1, .batches = {5}});
  const auto done = run_ranks(2, test::afd_config(input, {}), [&](runtime::Communicator& comm) -> Result<void> {
    const ops::AfdShape shape = input.shape();
    const ops::AfdSignals signals = ops::afd_signals(comm.slots());
    Bytestring expand_x(comm.rank() == Rank{0} ? 1U << 12 : 0U);
    for (const std::uint64_t behind : {std::uint64_t{64}, std::uint64_t{0}}) {
      ops::AfdPlace place{.shape = shape, .window = {}, .signals = signals};
      ops::A2eTables tables;
      const std::uint64_t needed =
          workspace_size(comm, test::a2e_args(input, place, comm.rank(), expand_x)).symmetric.value();
      place.window = Offset{comm.map().heap.end().value() - needed + behind};
      const auto called = ops::a2e(comm, test::a2e_args(input, place, comm.rank(), expand_x), tables);
      CHECK(called.has_value() == (behind == 0));
      if (called) continue;
      CHECK(called.error().code == Errc::invalid_argument);
      const std::string figures = fmt::format("window: 1 rows of {} bytes at offset {}", needed, place.window);
      CHECK_MESSAGE(called.error().context.find(figures) != std::string::npos, to_string(called.error()));
    }
    return comm.barrier();
  });
  CHECK_MESSAGE(done, to_string(done.error()));
}

TEST_CASE("the collectives in two phases") {
  for (const std::int32_t cores : {1, 3}) {
    for (const std::int64_t elements : {std::int64_t{40}, std::int64_t{40000}}) {
      runtime::Config config = collective_config(cores);
      config.heap = Bytes{4U << 20};
      const auto done = run_ranks(4, config, [&](runtime::Communicator& comm) -> Result<void> {
        const Result<Offset> window = comm.allocate(Bytes{2U << 20});
        const Result<Offset> tensor = comm.allocate(Bytes{1U << 18});
        REQUIRE(window);
        REQUIRE(tensor);
        const shmem::Region place{*window, Bytes{2U << 20}};
        PASS_ON(all_to_all_path(comm, place, *tensor, elements));
        PASS_ON(reduce_scatter_path(comm, place, std::nullopt, elements, kPair));
        PASS_ON(reduce_scatter_path(comm, place, *tensor, elements, kPair));
        PASS_ON(reduce_scatter_path(comm, place, std::nullopt, elements, {}));
        return reduce_scatter_path(comm, place, *tensor, elements, {});
      });
      CHECK_MESSAGE(done, to_string(done.error()));
    }
  }
}

TEST_CASE("the registry counts for collectives what a call of that shape needs") {
  const runtime::CallShape shape{.ranks = 3, .cores = 2, .tokens = 5, .hidden = 7, .dtype = DType::fp32};
  const auto done = run_ranks(3, collective_config(2), [&](runtime::Communicator& comm) -> Result<void> {
    const Bytestring x(5 * 7 * 4);
    const ops::DetourShape all{.type = ops::Element::fp32, .elements = 35};
    PASS_ON(same("all_to_all_detour", estimate("all_to_all_detour", shape),
                 workspace_size(comm, ops::AllToAllArgs{.shape = all, .x = x})));
    PASS_ON(same("reduce_scatter_detour", estimate("reduce_scatter_detour", shape),
                 workspace_size(comm, ops::ReduceScatterArgs{.shape = all, .x = x})));
    const shmem::SlotFamily& credits = comm.slots().family("all2all");
    const ops::All2AllArgs heads{.shape = {.rows = 5, .heads = 1, .dim = 7, .dtype = DType::fp32},
                                 .x = x,
                                 .y = {},
                                 .buffers = Offset{0},
                                 .signals = credits};
    PASS_ON(same("reverse_all2all", estimate("reverse_all2all", shape), workspace_size(comm, heads)));
    PASS_ON(same("forward_all2all", estimate("forward_all2all", shape), workspace_size(comm, heads)));
    return same("rotate", estimate("rotate", shape), workspace_size(comm, ops::RotateArgs{.row = x, .inbox = {}}));
  });
  CHECK_MESSAGE(done, to_string(done.error()));
}

TEST_CASE("a detour collective without a window is refused with the bytes that it needs") {
  const auto done = run_ranks(2, collective_config(1), [&](runtime::Communicator& comm) -> Result<void> {
    const Bytestring x(80);
    Bytestring y(80);
    const ops::AllToAllArgs args{.shape = {.type = ops::Element::fp32, .elements = 20}, .x = x, .y = y};
    const Result<void> called = ops::all_to_all_detour(comm, args);
    REQUIRE(!called);
    CHECK(called.error().code == Errc::invalid_argument);
    CHECK(workspace_size(comm, args).symmetric == Bytes{4 * 64});
    CHECK_MESSAGE(called.error().context.find("are 256 bytes, the ipc window has 0") != std::string::npos,
                  to_string(called.error()));
    return comm.barrier();
  });
  CHECK_MESSAGE(done, to_string(done.error()));
}

TEST_CASE("the buffers of an all-to-all over heads may end where the block ends, and not behind") {
  const auto done = run_ranks(2, collective_config(2), [&](runtime::Communicator& comm) -> Result<void> {
    Bytestring x(6 * 2 * 3 * 32 * 2);
    Bytestring y(x.size());
    ops::All2AllArgs args{.shape = {.rows = 6, .heads = 3, .dim = 32},
                          .tiling = {.block_rows = 4},
                          .x = x,
                          .y = y,
                          .buffers = Offset{0},
                          .signals = comm.slots().family("all2all")};
    const std::uint64_t needed = workspace_size(comm, args).symmetric.value();
    CHECK(needed == 2 * 4 * 2 * 3 * 32 * 2);
    for (const std::uint64_t behind : {std::uint64_t{1}, std::uint64_t{0}}) {
      args.buffers = Offset{comm.map().size.value() - needed + behind};
      const auto called = ops::reverse_all2all(comm, args);
      CHECK(called.has_value() == (behind == 0));
      if (called) continue;
      CHECK(called.error().code == Errc::invalid_argument);
      CHECK(called.error().context.find(fmt::format("the buffers: 1 rows of {} bytes", needed)) != std::string::npos);
    }
    return comm.barrier();
  });
  CHECK_MESSAGE(done, to_string(done.error()));
}

TEST_CASE("a workspace that begins at an odd address is refused") {
  const test::EpCase input = test::make_case(2, {.tokens = {3, 3}});
  const auto done =
      run_ranks(2, test::config_for({}, test::heap_for({&input, 1})), [&](runtime::Communicator& comm) -> Result<void> {
        const auto room = test::allocate_room(comm, {&input, 1});
        REQUIRE(room);
        test::Tables tables(input, comm.rank());
        Bytestring memory(1U << 12);
        const Result<void> called = ops::layout(comm,
                                                {.routing = tables.routing,
                                                 .experts = tables.experts,
                                                 .num_tokens_per_expert = room->counts[0],
                                                 .workspace = std::span{memory}.subspan(1)},
                                                tables.layout);
        CHECK(called.has_value());
        REQUIRE(tables.layout.fault.has_value());
        CHECK(tables.layout.fault->context.find("begins 1 bytes behind a multiple of 16") != std::string::npos);
        return comm.barrier();
      });
  CHECK_MESSAGE(done, to_string(done.error()));
}
