#include "capi/handles.hpp"
#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/pipeline.hpp"
#include "ops/ep/routing.hpp"
#include "ops/ep/rows.hpp"

using namespace shmoe;
using namespace shmoe::capi;

struct shmoe_ep {
  Held held;
  std::int32_t topk;
  std::int64_t alignment;
  ops::GroupList group_list;
  ops::ExpertMap experts;
  ops::EpBuffers buffers;
  std::vector<std::int32_t> own_experts;
  ops::Routing routing;
  ops::LayoutTables layout = {};
  ops::NotifyTables notify = {};
};

namespace {

ops::ExpertMap experts_of(const shmoe_ep_shape& shape, const runtime::Communicator& comm) {
  check_experts(shape.experts);
  if (shape.owners != nullptr) return owned_by(shape.owners, shape.experts, comm.ranks());
  return ops::ExpertMap::even(shape.experts, comm.ranks());
}

std::vector<std::int32_t> own_experts_of(const ops::ExpertMap& experts, Rank rank) {
  std::vector<std::int32_t> own;
  for (const Expert expert : experts.experts_of(rank)) own.push_back(expert.value());
  return own;
}

}  // namespace

shmoe_status shmoe_ep_create(shmoe_communicator* comm, const shmoe_ep_shape* shape, shmoe_ep** ep) {
  return call("shmoe_ep_create", [&] {
    shmoe_ep*& made = need(ep, "ep");
    const Held& held = need(comm, "comm").held;
    const shmoe_ep_shape wanted = taken(shape, "shape");
    const auto type = choice<DType>(wanted.type, 3, "shape->type");
    const auto quant = choice<ops::Quant>(wanted.quant, 2, "shape->quant");
    const auto group_list = choice<ops::GroupList>(wanted.group_list, 2, "shape->group_list");
    const ops::ExpertMap experts = experts_of(wanted, held.comm());
    if (wanted.hidden < 1 || wanted.hidden > ops::kMostHidden)
      refuse(fmt::format("shape->hidden is {}: it goes from 1 to {}", wanted.hidden, ops::kMostHidden));
    ops::EpBuffers buffers =
        value_of(ops::EpBuffers::allocate(held.comm(), wanted.experts, type, wanted.hidden, quant));
    made = new shmoe_ep{.held = held,
                        .topk = wanted.topk,
                        .alignment = wanted.expert_alignment == 0 ? 1 : wanted.expert_alignment,
                        .group_list = group_list,
                        .experts = experts,
                        .buffers = buffers,
                        .own_experts = own_experts_of(experts, held.comm().rank()),
                        .routing = ops::Routing(wanted.topk, {})};
  });
}

shmoe_status shmoe_ep_destroy(shmoe_ep* ep) {
  return call("shmoe_ep_destroy", [&] {
    const std::unique_ptr<shmoe_ep> owned(&need(ep, "ep"));
    if (!owned->held.ended()) done(owned->buffers.release());
  });
}

shmoe_status shmoe_ep_layout(shmoe_ep* ep, const std::int64_t* topk_idx, const float* weights, std::int64_t tokens) {
  return call("shmoe_ep_layout", [&] {
    shmoe_ep& step = need(ep, "ep");
    if (tokens < 0 || tokens > kMostTokens)
      refuse(fmt::format("tokens is {}: it goes from 0 to {}", tokens, kMostTokens));
    if (tokens > 0) need(topk_idx, "topk_idx");
    const std::int64_t pairs = tokens * step.topk;
    step.routing.assign(step.topk, tensor(topk_idx, pairs), tensor(weights, pairs));
    done(ops::layout(
        step.held.comm(),
        {.routing = step.routing, .experts = step.experts, .num_tokens_per_expert = step.buffers.next_counts()},
        step.layout));
  });
}

shmoe_status shmoe_ep_notify(shmoe_ep* ep) {
  return call("shmoe_ep_notify", [&] {
    shmoe_ep& step = need(ep, "ep");
    done(ops::notify(step.held.comm(),
                     {.layout = step.layout,
                      .experts = step.experts,
                      .expert_alignment = step.alignment,
                      .group_list = step.group_list},
                     step.notify));
    done(step.buffers.reserve(step.notify));
  });
}

shmoe_status shmoe_ep_dispatch(shmoe_ep* ep, const shmoe_ep_dispatch_args* args) {
  return call("shmoe_ep_dispatch", [&] {
    const shmoe_ep& step = need(ep, "ep");
    const shmoe_ep_dispatch_args given = taken(args, "args");
    runtime::Communicator& comm = step.held.comm();
    done(ops::dispatch_normal(comm, {.x = bytes(given.x, given.x_bytes),
                                     .dtype = step.buffers.dtype(),
                                     .hidden = step.buffers.hidden(),
                                     .topk_idx = step.routing.topk_idx_i32(),
                                     .experts = step.experts,
                                     .layout = step.layout,
                                     .notify = step.notify,
                                     .recv_x = step.buffers.recv_x(),
                                     .capacity = step.buffers.capacity(),
                                     .quant = step.buffers.quant(),
                                     .recv_scales = step.buffers.recv_scales(),
                                     .wait_cost = tensor(given.wait_cost, comm.ranks())}));
  });
}

shmoe_status shmoe_ep_rows(shmoe_ep* ep, shmoe_rows* rows) {
  return call("shmoe_ep_rows", [&] {
    const shmoe_ep& step = need(ep, "ep");
    (void)step.held.comm();
    const ops::NotifyTables& notify = step.notify;
    if (notify.owner_map == 0) refuse("there are no rows before a notify that has ended well");
    hand_out({.size = 0,
              .rows = notify.recv_rows,
              .padded_rows = notify.padded_rows,
              .capacity = step.buffers.capacity(),
              .x = step.buffers.received(notify.padded_rows).data(),
              .answers = step.buffers.answers(notify.padded_rows).data(),
              .scales = step.buffers.scales(notify.padded_rows).data(),
              .groups = static_cast<std::int32_t>(step.own_experts.size()),
              .experts = step.own_experts.data(),
              .rows_of_expert = notify.recv_tokens_per_expert.data(),
              .group_list = notify.group_list.data()},
             rows, "rows");
  });
}

shmoe_status shmoe_ep_combine(shmoe_ep* ep, const shmoe_ep_combine_args* args) {
  return call("shmoe_ep_combine", [&] {
    const shmoe_ep& step = need(ep, "ep");
    const shmoe_ep_combine_args given = taken(args, "args");
    runtime::Communicator& comm = step.held.comm();
    done(ops::combine_normal(comm, {.expert_out = step.buffers.expert_out(),
                                    .capacity = step.buffers.capacity(),
                                    .dtype = step.buffers.dtype(),
                                    .hidden = step.buffers.hidden(),
                                    .topk_idx = step.routing.topk_idx_i32(),
                                    .weights = step.routing.weights(),
                                    .experts = step.experts,
                                    .layout = step.layout,
                                    .notify = step.notify,
                                    .x = bytes(given.x, given.x_bytes),
                                    .prob_grad = place(given.prob_grad),
                                    .grad_out = bytes(given.grad_out, given.grad_out_bytes),
                                    .wait_cost = tensor(given.wait_cost, comm.ranks())}));
  });
}
