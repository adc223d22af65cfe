#include <array>
#include <limits>
#include <optional>

#include "capi/handles.hpp"
#include "ops/ep/rows.hpp"
#include "ops/low_latency/buffers.hpp"
#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"

using namespace shmoe;
using namespace shmoe::capi;

namespace {

/// A call and its half of the buffers.
struct HalfCall {
  const ops::LowLatencyBuffers::Half* half = nullptr;
  ops::LowLatencyTables tables = {};
  std::optional<ops::CombineLowLatencyArgs> combining = {};  // between begin and finish
};

}  // namespace

struct shmoe_ll {
  Held held;
  std::int32_t topk;
  DType type;
  std::int64_t hidden;
  ops::Quant quant;
  ops::GroupList group_list;
  ops::SharedExperts shared;
  ops::ExpertMap experts;
  ops::LowLatencyBuffers buffers;
  std::vector<std::int32_t> own_experts;
  std::array<HalfCall, 2> calls = {};
  std::int32_t turn = 1;
};

namespace {

/// So many rows of ops::kMostHidden have bytes that 64 bits can count.
constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

ops::ExpertMap routed_experts(const shmoe_ll_shape& shape, const ops::SharedExperts& shared,
                              const runtime::Communicator& comm) {
  check_experts(shape.experts);
  if (shape.owners != nullptr) return owned_by(shape.owners, shape.experts, comm.ranks());
  return value_of(ops::experts_behind(shared, shape.experts, comm.ranks()));
}

std::vector<std::int32_t> groups_of(const ops::SharedExperts& shared, const ops::ExpertMap& experts, Rank rank) {
  std::vector<std::int32_t> own;
  if (rank.value() < shared.ranks) own.push_back(-1);
  for (const Expert expert : experts.experts_of(rank)) own.push_back(expert.value());
  return own;
}

HalfCall& call_of(shmoe_ll& ll, std::int32_t half) {
  if (half < 0 || half > 1) refuse(fmt::format("half is {}: 0 or 1, as dispatch has said", half));
  HalfCall& call = ll.calls[static_cast<std::size_t>(half)];
  if (call.half == nullptr) refuse(fmt::format("no dispatch has used half {} yet", half));
  return call;
}

using Dispatch = Result<void> (*)(runtime::Communicator&, const ops::DispatchLowLatencyArgs&, ops::LowLatencyTables&);

void dispatch(shmoe_ll& ll, const shmoe_ll_dispatch_args& given, std::int32_t& half, Dispatch operation) {
  if (given.tokens < 0 || given.tokens > kMostTokens) {
    refuse(fmt::format("args->tokens is {}: it goes from 0 to {}", given.tokens, kMostTokens));
  }
  runtime::Communicator& comm = ll.held.comm();
  ll.turn = 1 - ll.turn;
  HalfCall& call = ll.calls[static_cast<std::size_t>(ll.turn)];
  call.half = &ll.buffers.next();
  half = ll.turn;
  const std::int64_t columns = ll.shared.experts + ll.experts.experts();
  done(operation(comm,
                 {.x = bytes(given.x, given.x_bytes),
                  .dtype = ll.type,
                  .hidden = ll.hidden,
                  .expert_ids = tensor(given.expert_ids, given.tokens * ll.topk),
                  .topk = ll.topk,
                  .experts = ll.experts,
                  .active_mask = tensor(given.active_mask, static_cast<std::int64_t>(given.active_mask_count)),
                  .shared = ll.shared,
                  .expand_x = call.half->expand_x,
                  .capacity = ll.buffers.capacity(),
                  .quant = ll.quant,
                  .dynamic_scales = call.half->dynamic_scales,
                  .scales = tensor(given.scales, columns * ll.hidden),
                  .static_scale = given.static_scale == nullptr ? std::nullopt : std::optional(*given.static_scale),
                  .expert_token_nums = ll.group_list},
                 call.tables));
}

ops::CombineLowLatencyArgs combine_args(const shmoe_ll& ll, HalfCall& call, const shmoe_ll_combine_args& given) {
  return {.expert_out = call.half->expert_out,
          .capacity = ll.buffers.capacity(),
          .tables = call.tables,
          .expert_scales = tensor(given.expert_scales, call.tables.tokens * ll.topk),
          .ori_x = bytes(given.ori_x, given.ori_x_bytes),
          .shared_expert_x = bytes(given.shared_expert_x, given.shared_expert_x_bytes),
          .x = bytes(given.x, given.x_bytes)};
}

}  // namespace

shmoe_status shmoe_ll_create(shmoe_communicator* comm, const shmoe_ll_shape* shape, shmoe_ll** ll) {
  return call("shmoe_ll_create", [&] {
    shmoe_ll*& made = need(ll, "ll");
    const Held& held = need(comm, "comm").held;
    const shmoe_ll_shape wanted = taken(shape, "shape");
    const auto type = choice<DType>(wanted.type, 3, "shape->type");
    const auto quant = choice<ops::Quant>(wanted.quant, 2, "shape->quant");
    const auto group_list = choice<ops::GroupList>(wanted.group_list, 2, "shape->group_list");
    const ops::SharedExperts shared{.experts = wanted.shared_experts, .ranks = wanted.shared_ranks};
    const ops::ExpertMap experts = routed_experts(wanted, shared, held.comm());
    if (wanted.hidden < 1 || wanted.hidden > ops::kMostHidden)
      refuse(fmt::format("shape->hidden is {}: it goes from 1 to {}", wanted.hidden, ops::kMostHidden));
    if (wanted.topk < 1 || wanted.topk > wanted.experts)
      refuse(fmt::format("shape->topk is {}: it goes from 1 to the {} experts", wanted.topk, wanted.experts));
    if (shared.ranks > 0 && (shared.experts < 1 || shared.experts > shared.ranks))
      refuse(fmt::format("shape->shared_experts is {}: it goes from 1 to shape->shared_ranks, which is {}",
                         shared.experts, shared.ranks));
    if (wanted.capacity < 0 || wanted.capacity > kMostRows || wanted.most_tokens < 0 ||
        wanted.most_tokens > kMostRows) {
      refuse(fmt::format("shape->capacity is {} and shape->most_tokens is {}: each goes from 0 to {}", wanted.capacity,
                         wanted.most_tokens, kMostRows));
    }
    const std::int64_t capacity =
        wanted.capacity > 0 ? wanted.capacity : ops::most_rows(experts, wanted.topk, wanted.most_tokens, shared);
    if (capacity > kMostRows) refuse(fmt::format("{} rows may come: lower shape->most_tokens", capacity));
    ops::LowLatencyBuffers buffers = value_of(ops::LowLatencyBuffers::allocate(
        held.comm(), {.capacity = capacity, .dtype = type, .hidden = wanted.hidden, .quant = quant}));
    made = new shmoe_ll{.held = held,
                        .topk = wanted.topk,
                        .type = type,
                        .hidden = wanted.hidden,
                        .quant = quant,
                        .group_list = group_list,
                        .shared = shared,
                        .experts = experts,
                        .buffers = buffers,
                        .own_experts = groups_of(shared, experts, held.comm().rank())};
  });
}

shmoe_status shmoe_ll_destroy(shmoe_ll* ll) {
  return call("shmoe_ll_destroy", [&] {
    const std::unique_ptr<shmoe_ll> owned(&need(ll, "ll"));
    if (!owned->held.ended()) done(owned->buffers.release());
  });
}

shmoe_status shmoe_ll_dispatch(shmoe_ll* ll, const shmoe_ll_dispatch_args* args, std::int32_t* half) {
  return call("shmoe_ll_dispatch",
              [&] { dispatch(need(ll, "ll"), taken(args, "args"), need(half, "half"), ops::dispatch_low_latency); });
}

shmoe_status shmoe_ll_dispatch_begin(shmoe_ll* ll, const shmoe_ll_dispatch_args* args, std::int32_t* half) {
  return call("shmoe_ll_dispatch_begin",
              [&] { dispatch(need(ll, "ll"), taken(args, "args"), need(half, "half"), ops::dispatch_begin); });
}

shmoe_status shmoe_ll_dispatch_finish(shmoe_ll* ll, std::int32_t half) {
  return call("shmoe_ll_dispatch_finish", [&] {
    HalfCall& call = call_of(need(ll, "ll"), half);
    done(ops::dispatch_finish(ll->held.comm(), call.tables));
  });
}

shmoe_status shmoe_ll_rows(shmoe_ll* ll, std::int32_t half, shmoe_rows* rows) {
  return call("shmoe_ll_rows", [&] {
    const HalfCall& call = call_of(need(ll, "ll"), half);
    (void)ll->held.comm();
    const ops::LowLatencyTables& tables = call.tables;
    const bool counted = ll->group_list == ops::GroupList::counts;
    hand_out({.size = 0,
              .rows = tables.recv_rows,
              .padded_rows = tables.recv_rows,
              .capacity = ll->buffers.capacity(),
              .x = call.half->received(tables).data(),
              .answers = call.half->answers(tables).data(),
              .scales = call.half->scales(tables).data(),
              .groups = static_cast<std::int32_t>(ll->own_experts.size()),
              .experts = ll->own_experts.data(),
              .rows_of_expert = counted ? tables.expert_token_nums.data() : nullptr,
              .group_list = tables.expert_token_nums.data()},
             rows, "rows");
  });
}

shmoe_status shmoe_ll_combine(shmoe_ll* ll, std::int32_t half, const shmoe_ll_combine_args* args) {
  return call("shmoe_ll_combine", [&] {
    HalfCall& call = call_of(need(ll, "ll"), half);
    done(ops::combine_low_latency(ll->held.comm(), combine_args(*ll, call, taken(args, "args"))));
  });
}

shmoe_status shmoe_ll_combine_begin(shmoe_ll* ll, std::int32_t half, const shmoe_ll_combine_args* args) {
  return call("shmoe_ll_combine_begin", [&] {
    HalfCall& call = call_of(need(ll, "ll"), half);
    const shmoe_ll_combine_args given = taken(args, "args");
    runtime::Communicator& comm = ll->held.comm();
    done(ops::combine_begin(comm, call.combining.emplace(combine_args(*ll, call, given))));
  });
}

shmoe_status shmoe_ll_combine_finish(shmoe_ll* ll, std::int32_t half) {
  return call("shmoe_ll_combine_finish", [&] {
    HalfCall& call = call_of(need(ll, "ll"), half);
    if (!call.combining)
      refuse(fmt::format("no combine is in flight in half {}: call shmoe_ll_combine_begin first", half));
    const ops::CombineLowLatencyArgs args = *call.combining;
    call.combining.reset();
    done(ops::combine_finish(ll->held.comm(), args));
  });
}
