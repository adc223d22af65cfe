// A step whose tables, routing and buffers are there takes nothing from the allocator, and calls the kernel to wait only.

#include <doctest/doctest.h>

#include <vector>

#include "ops/ep/pipeline.hpp"
#include "ops/ep/replicas.hpp"
#include "tests/ops/ep_fixture.hpp"
#include "tests/steady/steady.hpp"

using namespace shmoe;

namespace {

constexpr std::int32_t kRanks = 3;

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

/// What a rank needs for its steps.
struct RankOfSteps {
  runtime::Communicator* comm;
  const test::EpCase* input;
  ops::ExpertMap experts;
  ops::ReplicaMap replicas;
  ops::EpBuffers buffers;
  Kept kept;
  Result<void> operator()() { return full_step(*comm, *input, experts, replicas, buffers, kept); }
};

RankOfSteps prepared(runtime::World& world, const test::EpCase& input) {
  runtime::Communicator& comm = world.all();
  ops::ExpertMap experts = input.experts();
  auto buffers = ops::EpBuffers::allocate(comm, experts.experts(), input.dtype, input.hidden, input.quant);
  return {.comm = &comm,
          .input = &input,
          .experts = std::move(experts),
          .replicas = std::move(ops::ReplicaMap::of({{0, 5}, {1}, {2, 3, 4}})).value(),
          .buffers = std::move(buffers).value(),
          .kept = {.logical = ops::Routing(1, {}),
                   .routing = ops::Routing(1, {}),
                   .layout = {},
                   .notify = {},
                   .x = input.tokens_of(comm.rank().value())}};
}

}  // namespace

TEST_CASE("a steady step takes nothing from the allocator, and calls the kernel to wait only") {
  for (const ops::Quant quant : {ops::Quant::none, ops::Quant::int8}) {
    const test::EpCase input = test::make_case(
        5, {.experts = 6, .topk = 3, .hidden = 5000, .tokens = {9, 0, 14}, .dropped_percent = 10, .quant = quant},
        [](std::int64_t rank, std::int64_t token, std::int64_t k) { return (rank + token * k) % 3; });
    for (const std::int32_t cores : {1, 3}) {
      for (const bool views : {true, false}) {
        CAPTURE(cores);
        CAPTURE(views);
        const test::StepCost cost =
            test::cost_of_steps(kRanks, test::config_for({.cores = cores, .views = views}, Bytes{4U << 20}),
                                [&](runtime::World& world) { return prepared(world, input); });
        CHECK(cost.allocations == 0);
        CHECK_MESSAGE(cost.calls_only_to_wait(), cost.calls);
      }
    }
  }
}
