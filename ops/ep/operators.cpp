// The entries of the normal path.

#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/rows.hpp"
#include "ops/registry.hpp"

namespace shmoe::ops {

namespace {

using runtime::CallShape;

constexpr std::string_view kAtMostExperts = "at most the experts";
constexpr std::string_view kWholeShares = "published: a multiple of the ranks";

runtime::Operator layout_entry() {
  return {
      .name = "layout",
      .family = "ep",
      .header = "ops/ep/layout.hpp",
      .does = "counts what a rank will send to each expert, and numbers its pairs",
      .published = {"moe_dispatch_layout_zb"},
      .calls = {"layout"},
      .variants = {profiles()},
      .needs = {.slots = "sync-all alone", .symmetric = {"num_tokens_per_expert [E] i32"}},
      .stages = {"count own tokens, SyncAll", "fold own columns, SyncAll", "number own tokens"},
      .limits = {{.of = "ranks", .safe = {.least = 1}, .published = {{1, 384}}},
                 {.of = "experts", .safe = {.least = 1}, .published = {{1, 512}}, .besides = kWholeShares},
                 {.of = "top-k", .safe = {.least = 1}, .published = {{1, 16}}, .besides = kAtMostExperts},
                 {.of = "pairs of a rank", .safe = {0, kMostPairs}}},
      .workspace = [](const CallShape& s) { return of_all_cores(s, layout_share(s.experts, s.cores)); },
  };
}

runtime::Operator notify_entry() {
  return {
      .name = "notify",
      .family = "ep",
      .header = "ops/ep/notify.hpp",
      .does = "tells every rank where its rows will lie",
      .published = {"moe_notify_dispatch_zb"},
      .calls = {"notify"},
      .variants = {{"group list", {"counts", "cumulative"}}, profiles()},
      .needs = {.slots = "barrier of the communicator",
                .symmetric = {"num_tokens_per_expert [E] i32"},
                .before = {"layout"}},
      .stages = {"enter: BarrierAll", "collect counts, SyncAll", "derive tables, SyncAll"},
      .limits = {{.of = "ranks", .safe = {.least = 1}, .published = {{1, 384}}},
                 {.of = "cores",
                  .safe = {1, shmem::kMaxCores},
                  .published = runtime::Range{},
                  .besides = "the published kernel needs 5 or more"},
                 {.of = "expert_alignment", .safe = {1, kMostAlignment}}},
      .workspace = [](const CallShape& s) { return of_all_cores(s, notify_share(s.experts)); },
  };
}

runtime::Operator dispatch_entry() {
  return {
      .name = "dispatch_normal",
      .family = "ep",
      .header = "ops/ep/dispatch_normal.hpp",
      .does = "puts each token row to its final place on the rank that owns its expert",
      .published = {"moe_dispatch_normal_zb"},
      .calls = {"dispatch_normal"},
      .variants = {float_rows(), {"quant", {"none", "int8 with a scale a row"}}, profiles()},
      .needs = {.slots = "barrier of the communicator",
                .symmetric = {"recv_x [capacity, H]", "recv_scales [capacity] fp32, with int8"},
                .before = {"layout", "notify"}},
      .stages = {"enter: BarrierAll", "send rows", "exit: BarrierAll"},
      .limits = {{.of = "ranks", .safe = {.least = 1}, .published = {{2, 384}}},
                 {.of = "experts", .safe = {.least = 1}, .published = {{1, 512}}, .besides = kWholeShares},
                 {.of = "top-k", .safe = {.least = 1}, .published = {{1, 16}}, .besides = kAtMostExperts},
                 {.of = "hidden", .safe = {1, kMostHidden}, .published = {{1024, 7168}}},
                 {.of = "tokens", .safe = {}, .published = {{.least = 1}}},
                 {.of = "capacity", .safe = {}, .besides = "at least total_recv_tokens of notify"}},
      .workspace = [](const CallShape& s) { return of_all_cores(s, dispatch_normal_share(quant_of(s), s.hidden)); },
  };
}

runtime::Operator combine_entry() {
  return {
      .name = "combine_normal",
      .family = "ep",
      .header = "ops/ep/combine_normal.hpp",
      .does = "adds up the answers of each token's experts, weighted",
      .published = {"moe_combine_normal_zb"},
      .calls = {"combine_normal"},
      .variants = {float_rows(), {"weights", {"given", "all 1"}}, {"gradients", {"none", "prob_grad"}}, profiles()},
      .needs = {.slots = "barrier of the communicator",
                .symmetric = {"expert_out [capacity, H]", "prob_grad [capacity, 1], on request"},
                .before = {"layout", "notify", "dispatch_normal"}},
      .stages = {"enter: BarrierAll", "sum tokens", "fetch gradients, on request", "SyncAll"},
      .limits = {{.of = "ranks", .safe = {.least = 1}, .published = {{2, 384}}},
                 {.of = "experts", .safe = {.least = 1}, .published = {{1, 512}}, .besides = kWholeShares},
                 {.of = "top-k", .safe = {.least = 1}, .published = {{1, 16}}, .besides = kAtMostExperts},
                 {.of = "hidden", .safe = {1, kMostHidden}, .published = {{1024, 7168}}},
                 {.of = "tokens", .safe = {}, .published = runtime::Range{}},
                 {.of = "capacity", .safe = {}, .besides = "at least total_recv_tokens of notify"}},
      .workspace = [](const CallShape& s) { return of_all_cores(s, row_sum_share(s.dtype, s.hidden, s.topk, s.topk)); },
  };
}

}  // namespace

void register_ep(runtime::Registry& registry) {
  registry.add(layout_entry());
  registry.add(notify_entry());
  registry.add(dispatch_entry());
  registry.add(combine_entry());
}

}  // namespace shmoe::ops
