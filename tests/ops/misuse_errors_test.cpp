// Tables, buffers and numbers that belong to another call: refused before anything is sent, and the next call works.

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "ops/afd/e2a.hpp"
#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/detour/window.hpp"
#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/pipeline.hpp"
#include "ops/low_latency/buffers.hpp"
#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"
#include "runtime/world.hpp"
#include "tests/ops/refusal.hpp"

using namespace shmoe;
using ops::LowLatencyBuffers;
using ops::LowLatencyTables;
using test::check_told;

namespace {

constexpr std::int64_t kColumns = 4;
constexpr std::int64_t kTokens = 3;
const std::vector<Rank> kBoth{Rank{0}, Rank{1}};

/// Two ranks with the slots of the low-latency operators and of a2e and e2a.
void on_both(const std::function<Result<void>(runtime::World&)>& body) {
  runtime::Config config = runtime::Config::defaults();
  config.cores = 2;
  config.heap = Bytes{4U << 20};
  config.ipc_data = Bytes{1U << 20};
  config.communicators = 2;
  config.wait_limit = std::chrono::seconds(60);
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) {
    ops::declare_low_latency(plan, map);
    ops::declare_afd(plan, map);
  };
  const Result<void> done = runtime::World::run_as_threads(2, config, body);
  CHECK_MESSAGE(done, to_string(done.error()));
}

/// Every token goes to both experts, one on each rank, which add nothing: the sum is twice the token.
struct EasyStep {
  explicit EasyStep(runtime::Communicator& own)
      : comm(own),
        experts(ops::ExpertMap::even(2, 2)),
        buffers(LowLatencyBuffers::allocate(own, {.capacity = 12, .dtype = DType::fp32, .hidden = kColumns}).value()),
        x(kTokens * kColumns),
        y(x.size()),
        ids{0, 1, 0, 1, 0, 1} {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(100 * own.rank().value()) + float(i);
  }

  [[nodiscard]] ops::DispatchLowLatencyArgs dispatch(const LowLatencyBuffers::Half& half) const {
    return {.x = std::as_bytes(std::span{x}),
            .dtype = DType::fp32,
            .hidden = kColumns,
            .expert_ids = ids,
            .topk = 2,
            .experts = experts,
            .expand_x = half.expand_x,
            .capacity = buffers.capacity()};
  }
  ops::CombineLowLatencyArgs combine(const LowLatencyBuffers::Half& half, LowLatencyTables& tables) {
    return {.expert_out = half.expert_out,
            .capacity = buffers.capacity(),
            .tables = tables,
            .x = std::as_writable_bytes(std::span{y})};
  }
  static void answer(const LowLatencyBuffers::Half& half, const LowLatencyTables& tables) {
    std::ranges::copy(half.received(tables), half.answers(tables).begin());
  }
  void check_sums() const {
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == 2 * x[i]);
  }
  /// A whole step that must work.
  Result<void> run() {
    LowLatencyTables tables;
    const LowLatencyBuffers::Half& half = buffers.next();
    if (Result<void> sent = ops::dispatch_low_latency(comm, dispatch(half), tables); !sent) return sent;
    answer(half, tables);
    Result<void> summed = ops::combine_low_latency(comm, combine(half, tables));
    if (summed) check_sums();
    return summed;
  }

  runtime::Communicator& comm;
  ops::ExpertMap experts;
  LowLatencyBuffers buffers;
  std::vector<float> x, y;
  std::vector<std::int32_t> ids;
};

/// Rank 0 has the experts, rank 1 a batch of kTokens.
struct EasyAfd {
  explicit EasyAfd(runtime::Communicator& own)
      : comm(own),
        shape{.ranks = ops::Assignment::of(1, 1).value(),
              .max_batch = 4,
              .hidden = kColumns,
              .topk = 2,
              .dtype = DType::fp32},
        signals(ops::afd_signals(own.slots())),
        window(own.allocate(ops::afd_window_bytes(shape, own.profile())).value()) {
    if (own.rank() == Rank{0}) {
      expand_x.resize(4 * kColumns);
      answers.assign(kTokens * kColumns, 7.0F);
    } else {
      x.assign(kTokens * kColumns, 2.0F);
      ids.assign(kTokens * 2, 1);
      scales.assign(kTokens * 2, 1.0F);
      y.resize(x.size());
    }
  }

  Result<void> a2e(const ops::AfdPlace& place, ops::A2eTables& tables) {
    return ops::a2e(comm,
                    {.place = place,
                     .x = std::as_bytes(std::span{x}),
                     .expert_ids = ids,
                     .scales = scales,
                     .active_mask = mask,
                     .expand_x = std::as_writable_bytes(std::span{expand_x})},
                    tables);
  }
  Result<void> e2a(const ops::AfdPlace& place, const ops::A2eTables& tables) {
    return ops::e2a(comm, {.place = place,
                           .a2e = tables,
                           .answers = std::as_bytes(std::span{answers}),
                           .x = std::as_writable_bytes(std::span{y})});
  }
  [[nodiscard]] ops::AfdPlace place() const { return {.shape = shape, .window = window, .signals = signals}; }

  runtime::Communicator& comm;
  ops::AfdShape shape;
  ops::AfdSignals signals;
  Offset window;
  std::vector<float> x, scales, expand_x, answers, y;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> mask;
};

Result<runtime::Communicator*> second(runtime::World& world) {
  return world.communicator(runtime::CommunicatorId{1}, kBoth);
}

}  // namespace

TEST_CASE("e2a refuses tables of an a2e of another shape, or of another communicator") {
  on_both([](runtime::World& world) -> Result<void> {
    EasyAfd afd(world.all());
    const Result<runtime::Communicator*> other = second(world);
    if (!other) return other.error();
    EasyAfd there(**other);
    ops::A2eTables tables;
    if (Result<void> sent = afd.a2e(afd.place(), tables); !sent) return sent;
    const auto refused = [&](const std::function<void(ops::AfdShape&)>& change, std::string_view text) {
      ops::AfdShape shape = afd.shape;
      change(shape);
      check_told(afd.e2a({.shape = shape, .window = afd.window, .signals = afd.signals}, tables),
                 Errc::invalid_argument, text);
    };
    refused(
        [](auto& shape) { shape.topk = 4096; },
        "rank 0: e2a: these tables come from an a2e of E 1, A 1, max_batch 4, hidden 4, top-k 2, fp32, gate on; this "
        "e2a is of E 1, A 1, max_batch 4, hidden 4, top-k 4096, fp32, gate on: hand both the same shape");
    refused([](auto& shape) { shape.compute_gate = false; }, "top-k 2, fp32, gate off: hand both");
    refused([](auto& shape) { shape.max_batch = 3; }, "max_batch 3");
    check_told(there.e2a(there.place(), tables), Errc::invalid_argument,
               "rank 0: these tables belong to communicator 0, and this call is on communicator 1");
    if (Result<void> back = afd.e2a(afd.place(), tables); !back) return back;
    for (const float value : afd.y) CHECK(value == 7.0F);
    return world.all().barrier();
  });
}

TEST_CASE("a2e refuses ids, masks, types and windows that there are not") {
  on_both([](runtime::World& world) -> Result<void> {
    EasyAfd afd(world.all());
    const bool sends = world.rank() == Rank{1};
    ops::A2eTables tables;
    const auto refused = [&](const ops::AfdPlace& place, std::string_view text) {
      check_told(afd.a2e(place, tables), Errc::invalid_argument, text);
    };
    if (sends) afd.ids[3] = -7;
    refused(afd.place(), "rank 1: a2e: row 1, k 1: expert id -7 is below 0; -1 alone drops a pair");
    if (sends) afd.ids[3] = -1;
    if (sends) afd.mask = {1, 5, 0};
    refused(afd.place(), "rank 1: a2e: entry 1 of active_mask is 5, neither 0 nor 1");
    afd.mask.clear();
    refused({.shape = afd.shape, .window = afd.window + Bytes{1}, .signals = afd.signals}, "is no multiple of 64");
    refused({.shape = afd.shape, .window = Offset{0}, .signals = afd.signals}, "lie over the slots a2e at offset 0");
    ops::AfdShape shape = afd.shape;
    shape.dtype = DType{99};
    refused({.shape = shape, .window = afd.window, .signals = afd.signals}, "dtype 99 and quantisation 0");
    return afd.a2e(afd.place(), tables);
  });
}

TEST_CASE("combine_finish refuses other arguments than those of combine_begin, alone, and may be repeated") {
  on_both([](runtime::World& world) -> Result<void> {
    EasyStep step(world.all());
    const LowLatencyBuffers::Half& half = step.buffers.next();
    const LowLatencyBuffers::Half& other = step.buffers.next();
    LowLatencyTables tables;
    if (Result<void> sent = ops::dispatch_low_latency(step.comm, step.dispatch(half), tables); !sent) return sent;
    EasyStep::answer(half, tables);
    if (Result<void> told = ops::combine_begin(step.comm, step.combine(half, tables)); !told) return told;
    const auto refused = [&](auto change, std::string_view text) {
      ops::CombineLowLatencyArgs args = step.combine(half, tables);
      change(args);
      check_told(ops::combine_finish(step.comm, args), Errc::invalid_argument, text);
    };
    const std::vector<float> scales(1);
    std::vector<std::byte> memory(16);
    refused([](auto& args) { args.x = {}; }, "x has 0 bytes");
    refused([](auto& args) { args.x = args.x.first(16); }, "x has 16 bytes");
    refused([&](auto& args) { args.expert_scales = scales; }, "1 weights for 6 expert ids");
    refused([&](auto& args) { args.workspace = memory; }, "the workspace has 16 bytes");
    refused([&](auto& args) { args.expert_out = other.expert_out; }, "and combine_begin was told 12 rows at");
    refused([&](auto& args) { args.expert_out = Offset{std::uint64_t{1} << 60}; }, "hand both the same");
    refused([&](auto& args) { args.capacity = 11; }, "expert_out of 11 rows");
    if (Result<void> summed = ops::combine_finish(step.comm, step.combine(half, tables)); !summed) return summed;
    step.check_sums();
    return step.run();
  });
}

TEST_CASE("low-latency tables are refused on another communicator than that of their dispatch") {
  on_both([](runtime::World& world) -> Result<void> {
    const Result<runtime::Communicator*> other = second(world);
    if (!other) return other.error();
    EasyStep step(world.all());
    EasyStep there(**other);
    const LowLatencyBuffers::Half& half = step.buffers.next();
    constexpr std::string_view kText = "these tables belong to communicator 0, and this call is on communicator 1";
    LowLatencyTables tables;
    if (Result<void> sent = ops::dispatch_begin(step.comm, step.dispatch(half), tables); !sent) return sent;
    check_told(ops::dispatch_finish(there.comm, tables), Errc::invalid_argument, kText);
    check_told(ops::dispatch_begin(there.comm, there.dispatch(there.buffers.next()), tables), Errc::invalid_argument,
               "these tables belong to low-latency dispatch 1, which is in flight on communicator 0");
    if (Result<void> received = ops::dispatch_finish(step.comm, tables); !received) return received;
    EasyStep::answer(half, tables);
    check_told(ops::combine_low_latency(there.comm, there.combine(there.buffers.next(), tables)),
               Errc::invalid_argument, kText);
    if (Result<void> told = ops::combine_begin(step.comm, step.combine(half, tables)); !told) return told;
    check_told(ops::combine_finish(there.comm, step.combine(half, tables)), Errc::invalid_argument, kText);
    if (Result<void> summed = ops::combine_finish(step.comm, step.combine(half, tables)); !summed) return summed;
    step.check_sums();
    if (Result<void> met = there.run(); !met) return met;
    return step.run();
  });
}

TEST_CASE("tables of layout and notify are refused on another communicator") {
  on_both([](runtime::World& world) -> Result<void> {
    const Result<runtime::Communicator*> other = second(world);
    if (!other) return other.error();
    const ops::ExpertMap experts = ops::ExpertMap::even(2, 2);
    const ops::Routing routing(1, {0, 1});
    const Result<Offset> counts = world.all().allocate(Bytes{8});
    if (!counts) return counts.error();
    constexpr std::string_view kText = "these tables belong to communicator 0, and this call is on communicator 1";
    ops::LayoutTables layout;
    ops::NotifyTables notify;
    if (Result<void> counted = ops::layout(
            world.all(), {.routing = routing, .experts = experts, .num_tokens_per_expert = *counts}, layout);
        !counted) {
      return counted;
    }
    check_told(ops::notify(**other, {.layout = layout, .experts = experts}, notify), Errc::invalid_argument, kText);
    if (Result<void> told = ops::notify(world.all(), {.layout = layout, .experts = experts}, notify); !told)
      return told;
    const Result<Offset> rows = (*other)->allocate(Bytes{256});
    if (!rows) return rows.error();
    std::vector<float> x(2 * kColumns);
    check_told(ops::dispatch_normal(**other, {.x = std::as_bytes(std::span{x}),
                                              .dtype = DType::fp32,
                                              .hidden = kColumns,
                                              .topk_idx = routing.topk_idx_i32(),
                                              .experts = experts,
                                              .layout = layout,
                                              .notify = notify,
                                              .recv_x = *rows,
                                              .capacity = 4}),
               Errc::invalid_argument, kText);
    return world.all().barrier();
  });
}

TEST_CASE("rows over slots, over their scales, or over x are refused") {
  on_both([](runtime::World& world) -> Result<void> {
    EasyStep step(world.all());
    const LowLatencyBuffers::Half& half = step.buffers.next();
    LowLatencyTables tables;
    const auto refused = [&](auto change, std::string_view text) {
      ops::DispatchLowLatencyArgs args = step.dispatch(half);
      change(args);
      check_told(ops::dispatch_low_latency(step.comm, args, tables), Errc::invalid_argument, text);
    };
    refused([](auto& args) { args.expand_x = Offset{0}; },
            "rank 0: expand_x: 12 rows of 16 bytes at offset 0 lie over the slots a2e at offset 0");
    refused(
        [](auto& args) {
          args.quant = ops::Quant::int8;
          args.dynamic_scales = args.expand_x;
        },
        "expand_x and dynamic_scales share 48 bytes: one would be overwritten while the other is in use");
    const std::span<std::byte> inside = step.comm.local<std::byte>(half.expand_x, step.x.size() * sizeof(float));
    refused([&](auto& args) { args.x = inside; }, "x and expand_x share 48 bytes");
    refused([](auto& args) { args.comm_alg = ops::CommAlg{9}; }, "9 is no algorithm");
    refused([](auto& args) { args.quant = ops::Quant{9}; }, "quantisation 9");
    refused([](auto& args) { args.dtype = DType{77}; }, "dtype 77");
    if (Result<void> sent = ops::dispatch_low_latency(step.comm, step.dispatch(half), tables); !sent) return sent;
    const auto sums_refused = [&](auto change, std::string_view text) {
      ops::CombineLowLatencyArgs args = step.combine(half, tables);
      change(args);
      check_told(ops::combine_low_latency(step.comm, args), Errc::invalid_argument, text);
    };
    const auto answers = step.comm.local<std::byte>(half.expert_out, step.x.size() * sizeof(float));
    sums_refused([&](auto& args) { args.x = answers; }, "x and expert_out share 48 bytes");
    sums_refused([](auto& args) { args.expert_out = Offset{64}; }, "lie over the slots a2e");
    sums_refused([](auto& args) { args.output = ops::CombineOutput{9}; }, "9 is no output of combine");
    // Answers in place of the rows.
    ops::CombineLowLatencyArgs in_place = step.combine(half, tables);
    in_place.expert_out = half.expand_x;
    if (Result<void> summed = ops::combine_low_latency(step.comm, in_place); !summed) return summed;
    step.check_sums();
    return step.run();
  });
}

TEST_CASE("tensors of a detour over each other, over the window or over slots are refused, and so are no types") {
  on_both([](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const Result<shmem::Region> window = ops::allocate_window(comm);
    if (!window) return window.error();
    const Result<Offset> tensor = comm.allocate(Bytes{64});
    if (!tensor) return tensor.error();
    std::vector<float> x(8), y(8);
    const auto all_to_all = [&](auto change) {
      ops::AllToAllArgs args{.shape = {.elements = 8, .window = *window},
                             .x = std::as_bytes(std::span{x}),
                             .y = std::as_writable_bytes(std::span{y})};
      change(args);
      return ops::all_to_all_detour(comm, args);
    };
    const auto refused = [&](auto change, std::string_view text) {
      check_told(all_to_all(change), Errc::invalid_argument, text);
    };
    const auto symmetric = [](Offset at) {
      return [at](auto& args) {
        args.y = {};
        args.y_at = at;
      };
    };
    refused(
        [&](auto& args) {
          symmetric (*tensor)(args);
          args.x = comm.local<std::byte>(*tensor, 32);
        },
        "rank 0: x and y_at share 32 bytes");
    refused([&](auto& args) { args.y = std::as_writable_bytes(std::span{x}); }, "x and y share 32 bytes");
    refused([&](auto& args) { args.x = comm.local<std::byte>(window->at, 32); }, "x and the ipc window share 32 bytes");
    refused(symmetric(Offset{0}), "y_at: 8 rows of 4 bytes at offset 0 lie over the slots a2e");
    refused(symmetric(*tensor + Bytes{2}), "is no multiple of 4");
    refused([](auto& args) { args.shape.window.at = Offset{64}; }, "the ipc window");
    refused([](auto& args) { args.shape.type = ops::Element{9}; }, "9 is no element type");
    ops::ReduceScatterArgs sums{.shape = {.elements = 8, .window = *window},
                                .reduction = ops::Reduction{7},
                                .x = std::as_bytes(std::span{x}),
                                .y = std::as_writable_bytes(std::span{y}).first(16)};
    check_told(ops::reduce_scatter_detour(comm, sums), Errc::invalid_argument, "7 is no reduction");
    sums.reduction = ops::Reduction::sum;
    sums.y = std::as_writable_bytes(std::span{x}).first(16);
    check_told(ops::reduce_scatter_detour(comm, sums), Errc::invalid_argument, "x and y share 16 bytes");
    return all_to_all([](auto&) {});
  });
}

TEST_CASE("a dispatch that is never finished is named by every later one, until its own tables end it") {
  on_both([](runtime::World& world) -> Result<void> {
    EasyStep step(world.all());
    LowLatencyTables first;
    if (Result<void> sent = ops::dispatch_begin(step.comm, step.dispatch(step.buffers.next()), first); !sent) {
      return sent;
    }
    if (Result<void> second_one = step.run(); !second_one) return second_one;
    for (int round = 3; round <= 7; ++round) {
      LowLatencyTables tables;
      check_told(
          ops::dispatch_low_latency(step.comm, step.dispatch(step.buffers.next()), tables), Errc::invalid_argument,
          fmt::format("rank 0: low-latency dispatch {} begins while an older one is in flight: dispatch 1 is open "
                      "on communicator 0. Call dispatch_finish with its own tables",
                      round));
    }
    if (Result<void> received = ops::dispatch_finish(step.comm, first); !received) return received;
    return step.run();
  });
}
