// The entries of the collectives with detours.

#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/registry.hpp"

namespace shmoe::ops {

namespace {

using runtime::CallShape;

constexpr std::string_view kDetourSlots = "barrier and flag [source][core] of the communicator";
constexpr std::string_view kMembers = "each rank of the group";
constexpr std::string_view kDetourWindow = "SHMOE_BUFFSIZE MiB of allocate_window, where shards wait";

runtime::Variant group_of_call() { return {"group", {"all ranks", "some, the others lend their memory"}}; }

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return Element::bf16;
    case DType::fp16: return Element::fp16;
    case DType::fp32: return Element::fp32;
  }
  return Element::fp32;
}

/// All ranks, x [T, H].
struct DetourExample {
  explicit DetourExample(const CallShape& shape)
      : group({}, shape.ranks), elements(shape.tokens * shape.hidden), type(element_of(shape.dtype)) {}

  [[nodiscard]] Bytes window() const {
    return group.size() == 1 ? Bytes{0} : DetourSlots(group, elements, type).size();
  }

  DetourGroup group;
  std::int64_t elements;
  Element type;
};

runtime::Operator all_to_all_entry() {
  return {
      .name = "all_to_all_detour",
      .family = "detour",
      .header = "ops/detour/all_to_all_detour.hpp",
      .does = "all-to-all among some ranks, with the memory of the others as further ways",
      .published = {"all_to_all_detour", "all2_all_detour"},
      .calls = {"all_to_all_detour"},
      .variants = {{"elements", {"fp16", "bf16", "fp32", "int32"}},
                   group_of_call(),
                   {"y", {"own memory", "symmetric"}, {"symmetric"}},
                   profiles()},
      .needs = {.slots = kDetourSlots, .symmetric = {"y_at, on request"}, .window = kDetourWindow},
      .stages = {"enter: BarrierAll of all ranks", "send shards, flag", "keep the own chunk", "wait, receive shards"},
      .limits =
          {{.of = "ranks", .safe = {.least = 1}, .published = {{1, 384}}, .besides = "published: of its communicator"},
           {.of = "elements",
            .safe = {0, kMostDetourElements},
            .published = runtime::Range{},
            .besides = "as the window holds"}},
      .workspace = [](const CallShape& s) { return of_all_cores(s, Bytes{0}, DetourExample(s).window()); },
      .own_on = kMembers,
  };
}

runtime::Operator reduce_scatter_entry() {
  return {
      .name = "reduce_scatter_detour",
      .family = "detour",
      .header = "ops/detour/reduce_scatter_detour.hpp",
      .does = "reduce-scatter among some ranks, with the memory of the others as further ways",
      .published = {"reduce_scatter_detour"},
      .calls = {"reduce_scatter_detour"},
      .variants = {{"elements", {"fp16", "bf16", "fp32", "int32"}, {"bf16", "fp32", "int32"}},
                   {"reduction", {"sum", "max", "min"}},
                   group_of_call(),
                   {"x", {"own memory", "symmetric"}, {"symmetric"}},
                   profiles()},
      .needs = {.slots = kDetourSlots, .symmetric = {"x_at, on request"}, .window = kDetourWindow},
      .stages = {"enter: BarrierAll of all ranks", "send terms, flag", "wait for all", "reduce",
                 "BarrierAll, where a symmetric x is read in place"},
      .limits = {{.of = "ranks", .safe = {.least = 1}, .published = {{1, 16}}},
                 {.of = "elements",
                  .safe = {0, kMostDetourElements},
                  .published = {{.least = 1}},
                  .besides = "as the window holds; published: fp16, a multiple of the ranks"}},
      .workspace =
          [](const CallShape& s) {
            const DetourExample call(s);
            const std::int64_t shard = call.group.shards(call.elements, 0).length();
            const TermRoom room{.term = term_bytes(shard, call.type, s.cores), .terms = call.group.size()};
            return of_all_cores(s, room.share(), call.window());
          },
      .own_on = kMembers,
      .faithful_limits = true,
  };
}

}  // namespace

void register_detour(runtime::Registry& registry) {
  registry.add(all_to_all_entry());
  registry.add(reduce_scatter_entry());
}

}  // namespace shmoe::ops
