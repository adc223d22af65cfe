// A step whose tables, routing and buffers are there asks for no memory: operators take as little as empty kernels do that
// meet as often.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include "ops/ep/pipeline.hpp"
#include "ops/ep/replicas.hpp"
#include "tests/ops/ep_fixture.hpp"
#include "tests/runtime/support.hpp"

namespace {

std::atomic<bool> counting = false;
std::atomic<std::int64_t> allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  void* place = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (place == nullptr) throw std::bad_alloc();
  return place;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, std::size_t) noexcept { std::free(place); }
void operator delete(void* place, std::align_val_t) noexcept { std::free(place); }
void operator delete(void* place, std::size_t, std::align_val_t) noexcept { std::free(place); }

using namespace shmoe;

namespace {

constexpr std::int32_t kRanks = 3;
constexpr std::int32_t kSteps = 20;

/// Runs `step` on a rank, so that the last kSteps of all ranks are counted together.
template <class Step>
Result<std::int64_t> count_steps(runtime::Communicator& comm, runtime::test::HostBarrier& meet, const Step& step) {
  for (int i = 0; i < 3; ++i) {
    if (Result<void> done = step(i); !done) return done.error();
  }
  meet.arrive_and_wait();
  if (comm.rank() == Rank{0}) {
    allocations = 0;
    counting = true;
  }
  meet.arrive_and_wait();
  for (int i = 0; i < kSteps; ++i) {
    if (Result<void> done = step(i); !done) return done.error();
  }
  meet.arrive_and_wait();
  counting = false;
  const std::int64_t found = allocations;
  meet.arrive_and_wait();
  return found;
}

/// As often as the operators of a step meet.
Result<void> empty_step(runtime::Communicator& comm) {
  using runtime::CoreContext;
  const runtime::CallCard card("empty");
  const auto in_rank = [](CoreContext& context) {
    context.sync_all();
    context.sync_all();
  };
  const auto entered = [&](CoreContext& context, int more, bool exit) {
    runtime::ZeroBufferSync sync(context);
    sync.enter(card, std::nullopt);
    for (int i = 0; i < more; ++i) context.sync_all();
    if (exit) sync.barrier_all();
  };
  const auto notify = [&](CoreContext& context) { entered(context, 2, false); };
  const auto dispatch = [&](CoreContext& context) { entered(context, 0, true); };
  const auto combine = [&](CoreContext& context) { entered(context, 1, false); };
  Result<void> done = comm.launch("layout", std::cref(in_rank));
  if (done) done = comm.launch("notify", std::cref(notify));
  if (done) done = comm.launch("dispatch_normal", std::cref(dispatch));
  if (done) done = comm.launch("combine_normal", std::cref(combine));
  return done;
}

/// What a caller keeps.
struct Kept {
  ops::Routing logical, routing;
  ops::LayoutTables layout;
  ops::NotifyTables notify;
  std::vector<std::byte> x;
};

Result<void> full_step(runtime::Communicator& comm, const test::EpCase& input, const ops::ExpertMap& experts,
                       const ops::ReplicaMap& replicas, ops::EpBuffers& buffers, Kept& kept) {
  const auto& own = input.problem.ranks[comm.rank().index()];
  kept.logical.assign(input.problem.topk, own.topk_idx, own.weights);
  replicas.apply(kept.logical, comm.rank(), kept.routing);
  Result<void> done = ops::layout(
      comm, {.routing = kept.routing, .experts = experts, .num_tokens_per_expert = buffers.next_counts()}, kept.layout);
  if (done) done = ops::notify(comm, {.layout = kept.layout, .experts = experts, .expert_alignment = 4}, kept.notify);
  if (done) done = buffers.reserve(kept.notify);
  if (!done) return done;
  done = ops::dispatch_normal(comm, {.x = kept.x,
                                     .dtype = input.dtype,
                                     .hidden = input.hidden,
                                     .topk_idx = kept.routing.topk_idx_i32(),
                                     .experts = experts,
                                     .layout = kept.layout,
                                     .notify = kept.notify,
                                     .recv_x = buffers.recv_x(),
                                     .capacity = buffers.capacity(),
                                     .quant = buffers.quant(),
                                     .recv_scales = buffers.recv_scales()});
  if (!done) return done;
  return ops::combine_normal(comm, {.expert_out = buffers.expert_out(),
                                    .capacity = buffers.capacity(),
                                    .dtype = input.dtype,
                                    .hidden = input.hidden,
                                    .topk_idx = kept.routing.topk_idx_i32(),
                                    .weights = kept.routing.weights(),
                                    .experts = experts,
                                    .layout = kept.layout,
                                    .notify = kept.notify,
                                    .x = kept.x});
}

void check_steady(const test::EpCase& input, std::int32_t cores, bool views) {
  std::vector<std::int64_t> empty(kRanks, -1);
  std::vector<std::int64_t> full(kRanks, -1);
  runtime::test::HostBarrier meet(kRanks);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    const ops::ExpertMap experts = input.experts();
    const ops::ReplicaMap replicas = std::move(ops::ReplicaMap::of({{0, 5}, {1}, {2, 3, 4}})).value();
    auto buffers = ops::EpBuffers::allocate(comm, experts.experts(), input.dtype, input.hidden, input.quant);
    if (!buffers) return buffers.error();
    Kept kept{.logical = ops::Routing(1, {}),
              .routing = ops::Routing(1, {}),
              .layout = {},
              .notify = {},
              .x = input.tokens_of(comm.rank().value())};
    const auto nothing = count_steps(comm, meet, [&](int) { return empty_step(comm); });
    if (!nothing) return nothing.error();
    const auto all =
        count_steps(comm, meet, [&](int) { return full_step(comm, input, experts, replicas, *buffers, kept); });
    if (!all) return all.error();
    empty[comm.rank().index()] = *nothing;
    full[comm.rank().index()] = *all;
    return comm.barrier();
  };
  const Result<void> done =
      runtime::World::run_as_threads(kRanks, test::config_for({.cores = cores, .views = views}, Bytes{4U << 20}), body);
  REQUIRE_MESSAGE(done, to_string(done.error()));
  CHECK(full == empty);
}

}  // namespace

TEST_CASE("a steady step asks for no memory of its own") {
  for (const ops::Quant quant : {ops::Quant::none, ops::Quant::int8}) {
    test::EpCase input = test::make_case(
        5, {.experts = 6, .topk = 3, .hidden = 5000, .tokens = {9, 0, 14}, .dropped_percent = 10, .quant = quant},
        [](std::int64_t rank, std::int64_t token, std::int64_t k) { return (rank + token * k) % 3; });
    for (const std::int32_t cores : {1, 3}) {
      CAPTURE(cores);
      check_steady(input, cores, true);
      check_steady(input, cores, false);
    }
  }
}
