// The entries of attention and experts on ranks of their own.

#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "ops/registry.hpp"

namespace shmoe::ops {

namespace {

using runtime::CallShape;

constexpr std::string_view kAfdSlots = "a2e, e2a, barrier: declare_afd in Config::declare_slots";
constexpr std::string_view kAfdMemory = "afd_window_bytes on every rank; one for both operators";

std::vector<runtime::Limit> afd_limits() {
  return {{.of = "expert ranks",
           .safe = {.least = 1},
           .published = {{.least = 1}},
           .besides = "published: at most the attention ranks"},
          {.of = "attention ranks", .safe = {.least = 1}, .published = {{.least = 1}}},
          {.of = "batch", .safe = {0, kMostAfdBatch}, .published = {{1, 1024}}, .besides = "at most max_batch"},
          {.of = "max_batch", .safe = {1, kMostAfdBatch}},
          {.of = "hidden",
           .safe = {1, kMostAfdHidden},
           .published = {{1024, 7168}},
           .besides = "published: a multiple of 256"},
          {.of = "top-k", .safe = {1, kMostAfdTopk}, .published = {{1, 8}}},
          {.of = "cores", .safe = {1, shmem::kMaxCores}, .published = {{4, shmem::kMaxCores}}}};
}

/// Half of the ranks have experts; a job of one rank is counted as one of two.
AfdShape shape_of(const CallShape& shape) {
  const std::int32_t experts = std::max(shape.ranks / 2, 1);
  return {.ranks = *Assignment::of(experts, std::max(shape.ranks - experts, 1)),
          .max_batch = shape.tokens,
          .hidden = shape.hidden,
          .topk = shape.topk,
          .dtype = shape.dtype,
          .quant = quant_of(shape)};
}

/// The published kernels are empty for the others.
runtime::Variant afd_rows() { return {"rows", {"bf16", "fp16", "fp32"}, {"fp16", "fp32"}}; }

runtime::Operator a2e_entry() {
  return {
      .name = "a2e",
      .family = "afd",
      .header = "ops/afd/a2e.hpp",
      .does = "hands the batch of each attention rank to its expert rank",
      .published = {"a2e"},
      .calls = {"a2e"},
      .variants = {afd_rows(),
                   {"quant", {"none", "int8 with a scale a row"}, {"int8 with a scale a row"}},
                   {"gate", {"expert ids and scales", "none"}},
                   {"active mask", {"none", "[B]"}, {"[B]"}},
                   profiles()},
      .needs = {.slots = kAfdSlots, .window = kAfdMemory},
      .stages = {"enter: BarrierAll", "attention: batch size, ids, scales, a flag each",
                 "attention: rows, SyncAll, flag x", "expert: for each attention rank a wait and a fetch"},
      .limits = afd_limits(),
      .workspace =
          [](const CallShape& s) {
            const AfdShape shape = shape_of(s);
            return of_all_cores(s, a2e_share(s.tokens, shape), AfdWindow::of(shape).size);
          },
      .own_on = "each attention rank",
      .faithful_limits = true,
  };
}

runtime::Operator e2a_entry() {
  return {
      .name = "e2a",
      .family = "afd",
      .header = "ops/afd/e2a.hpp",
      .does = "hands the answers of the expert ranks back to their attention ranks",
      .published = {"e2a"},
      .calls = {"e2a"},
      .variants = {afd_rows(),
                   {"answers", {"one a row", "one for each k, summed"}, {"one for each k, summed"}},
                   profiles()},
      .needs = {.slots = kAfdSlots, .window = kAfdMemory, .before = {"a2e"}},
      .stages = {"enter: BarrierAll", "expert: rows or sums to the window, SyncAll, flag",
                 "attention: wait, rows to x"},
      .limits = afd_limits(),
      .workspace =
          [](const CallShape& s) {
            const AfdShape shape = shape_of(s);
            return of_all_cores(s, e2a_share(Answers::one_each_k, shape), AfdWindow::of(shape).size);
          },
      .own_on = "each expert rank",
      .faithful_limits = true,
  };
}

}  // namespace

void register_afd(runtime::Registry& registry) {
  registry.add(a2e_entry());
  registry.add(e2a_entry());
}

}  // namespace shmoe::ops
