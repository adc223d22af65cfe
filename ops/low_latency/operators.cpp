// The entries of the low-latency path.

#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"
#include "ops/registry.hpp"

namespace shmoe::ops {

namespace {

using runtime::CallShape;

runtime::Operator dispatch_low_latency_entry() {
  return {
      .name = "dispatch_low_latency",
      .family = "low_latency",
      .header = "ops/low_latency/dispatch.hpp",
      .does = "exchanges counts and sends the rows of few tokens in one kernel",
      .published = {"moe_dispatch_lowlatency_zb"},
      .calls = {"dispatch_low_latency", "dispatch_begin", "dispatch_finish"},
      .variants = {float_rows(),
                   {"quant",
                    {"none", "int8 with a scale a row", "int8 smoothed", "int8 with static_scale"},
                    {"int8 smoothed", "int8 with static_scale"}},
                   {"active mask", {"none", "all active", "[T]", "[T, K]"}, {"[T]", "[T, K]"}},
                   {"shared experts", {"none", "on ranks of their own"}, {"on ranks of their own"}},
                   {"expert_token_nums", {"counts", "cumulative"}},
                   {"comm_alg", {"standard", "fullmesh_v1"}},
                   profiles()},
      .needs = {.slots = "ll_status, ll_dispatch_flag: declare_low_latency in Config::declare_slots",
                .symmetric = {"expand_x [capacity, H]", "dynamic_scales [capacity] fp32, with int8"}},
      .stages = {"LocalLayout, SyncAll", "SetLayoutStatus", "SendCountNotify, SyncAll", "WaitNotify, SyncAll",
                 "InputToDstOutput, SyncAll", "SetSyncFlag; dispatch_begin ends here", "WaitSyncFlag", "CleanUp"},
      .limits =
          {{.of = "ranks", .safe = {.least = 1}, .published = {{2, 768}}, .besides = "faithful: at most 8 x cores"},
           {.of = "experts",
            .safe = {.least = 1},
            .published = {{1, 1024}},
            .besides = "with the shared ranks no more than the region has counts for; published: a multiple of "
                       "the ranks without shared ones"},
           {.of = "top-k", .safe = {.least = 1}, .published = {{1, 16}}, .besides = "at most the experts"},
           {.of = "hidden", .safe = {1, kMostHidden}, .published = {{1024, 8192}}},
           {.of = "tokens", .safe = {}, .published = {{1, 512}}},
           {.of = "pairs of a rank", .safe = {0, kMostPairs}, .besides = "shared ones included"},
           {.of = "tp_world_size", .safe = {0, 1}, .published = {{0, 2}}}},
      .workspace =
          [](const CallShape& s) {
            return of_all_cores(s, dispatch_low_latency_share(s.experts, quant_of(s), s.hidden));
          },
  };
}

runtime::Operator combine_low_latency_entry() {
  return {
      .name = "combine_low_latency",
      .family = "low_latency",
      .header = "ops/low_latency/combine.hpp",
      .does = "adds up the answers to few tokens after a single wait",
      .published = {"moe_combine_lowlatency_zb"},
      .calls = {"combine_low_latency", "combine_begin", "combine_finish"},
      .variants = {float_rows(),
                   {"weights", {"given", "all 1"}},
                   {"answers", {"in expert_out", "copied from ori_x"}},
                   {"shared_expert_x", {"none", "added"}, {"added"}},
                   profiles()},
      .needs = {.slots = "ll_combine_flag: declare_low_latency in Config::declare_slots",
                .symmetric = {"expert_out [capacity, H]"},
                .before = {"dispatch_low_latency"}},
      .stages = {"CopyValidExpandXToRemote, SyncAll", "SetSyncFlag; combine_begin ends here", "WaitSyncFlag, SyncAll",
                 "InputToDstOutput"},
      .limits = {{.of = "ranks", .safe = {.least = 1}, .published = {{2, 768}}},
                 {.of = "hidden", .safe = {1, kMostHidden}, .published = {{1024, 8192}}},
                 {.of = "tokens", .safe = {}, .published = {{1, 512}}},
                 {.of = "capacity", .safe = {}, .besides = "at least the rows of the rank that has most"},
                 {.of = "tp_world_size", .safe = {0, 1}, .published = {{0, 2}}}},
      .workspace =
          [](const CallShape& s) {
            return of_all_cores(s, row_sum_share(s.dtype, s.hidden, s.topk, std::int64_t{s.topk} + 1));
          },
  };
}

}  // namespace

void register_low_latency(runtime::Registry& registry) {
  registry.add(dispatch_low_latency_entry());
  registry.add(combine_low_latency_entry());
}

}  // namespace shmoe::ops
