#include "capi/handles.hpp"
#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"

using namespace shmoe;
using namespace shmoe::capi;

struct shmoe_afd {
  Held held;
  ops::AfdShape shape;
  ops::AfdSignals signals;
  Offset window;
  ops::A2eTables tables = {};

  [[nodiscard]] ops::AfdPlace place() const { return {.shape = shape, .window = window, .signals = signals}; }
};

namespace {

ops::AfdShape afd_shape_of(const shmoe_afd_shape& wanted) {
  const ops::AfdShape shape{.ranks = value_of(ops::Assignment::of(wanted.expert_ranks, wanted.attention_ranks)),
                            .max_batch = wanted.max_batch,
                            .hidden = wanted.hidden,
                            .topk = wanted.topk == 0 ? 1 : wanted.topk,
                            .dtype = choice<DType>(wanted.type, 3, "shape->type"),
                            .quant = choice<ops::Quant>(wanted.quant, 2, "shape->quant"),
                            .compute_gate = choice<int>(wanted.no_gate, 2, "shape->no_gate") == 0};
  if (shape.hidden < 1 || shape.hidden > ops::kMostAfdHidden || shape.topk < 1 || shape.topk > ops::kMostAfdTopk ||
      shape.max_batch < 0 || shape.max_batch > ops::kMostAfdBatch) {
    refuse(fmt::format(
        "shape->hidden {} of {}, shape->topk {} of {} or shape->max_batch {} of {} is none that it takes", shape.hidden,
        ops::kMostAfdHidden, shape.topk, ops::kMostAfdTopk, shape.max_batch, ops::kMostAfdBatch));
  }
  return shape;
}

ops::AfdSignals signals_of(const runtime::Communicator& comm) {
  const auto& families = comm.slots().families();
  if (std::ranges::none_of(families,
                           [](const shmem::SlotFamily& family) { return family.name == std::string_view("a2e"); }))
    refuse("the world has no slots for a2e: set config->uses to SHMOE_USES_AFD on every rank");
  return ops::afd_signals(comm.slots());
}

}  // namespace

shmoe_status shmoe_afd_create(shmoe_communicator* comm, const shmoe_afd_shape* shape, shmoe_afd** afd) {
  return call("shmoe_afd_create", [&] {
    shmoe_afd*& made = need(afd, "afd");
    const Held& held = need(comm, "comm").held;
    const ops::AfdShape wanted = afd_shape_of(taken(shape, "shape"));
    runtime::Communicator& open = held.comm();
    const ops::AfdSignals signals = signals_of(open);
    const Offset window = value_of(open.allocate(ops::afd_window_bytes(wanted, open.profile())));
    made = new shmoe_afd{.held = held, .shape = wanted, .signals = signals, .window = window};
  });
}

shmoe_status shmoe_afd_destroy(shmoe_afd* afd) {
  return call("shmoe_afd_destroy", [&] {
    const std::unique_ptr<shmoe_afd> owned(&need(afd, "afd"));
    if (!owned->held.ended()) done(owned->held.comm().free(owned->window));
  });
}

shmoe_status shmoe_a2e(shmoe_afd* afd, const shmoe_a2e_args* args) {
  return call("shmoe_a2e", [&] {
    shmoe_afd& step = need(afd, "afd");
    const shmoe_a2e_args given = taken(args, "args");
    if (given.tokens < 0 || given.tokens > ops::kMostAfdBatch) {
      refuse(fmt::format("args->tokens is {}: it goes from 0 to {}", given.tokens, ops::kMostAfdBatch));
    }
    const std::int64_t pairs = given.tokens * step.shape.topk;
    done(ops::a2e(step.held.comm(),
                  {.place = step.place(),
                   .x = bytes(given.x, given.x_bytes),
                   .expert_ids = tensor(given.expert_ids, pairs),
                   .scales = tensor(given.scales, pairs),
                   .active_mask = tensor(given.active_mask, given.tokens),
                   .expand_x = bytes(given.expand_x, given.expand_x_bytes)},
                  step.tables));
  });
}

shmoe_status shmoe_afd_tables(shmoe_afd* afd, shmoe_a2e_tables* tables) {
  return call("shmoe_afd_tables", [&] {
    const ops::A2eTables& own = need(afd, "afd").tables;
    if (own.round == 0) refuse("there are no tables before an a2e that has ended well");
    hand_out({.size = 0,
              .rows = own.rows,
              .batches = static_cast<std::int32_t>(own.atten_batch_size.size()),
              .batch_sizes = own.atten_batch_size.data(),
              .active_mask = own.x_active_mask.data(),
              .expert_ids = own.expert_ids.data(),
              .expert_scales = own.expert_scales.data(),
              .row_scales = own.row_scales.data()},
             tables, "tables");
  });
}

shmoe_status shmoe_e2a(shmoe_afd* afd, const shmoe_e2a_args* args) {
  return call("shmoe_e2a", [&] {
    const shmoe_afd& step = need(afd, "afd");
    const shmoe_e2a_args given = taken(args, "args");
    done(ops::e2a(step.held.comm(), {.place = step.place(),
                                     .a2e = step.tables,
                                     .kind = choice<ops::Answers>(given.kind, 2, "args->kind"),
                                     .answers = bytes(given.answers, given.answers_bytes),
                                     .x = bytes(given.x, given.x_bytes)}));
  });
}
