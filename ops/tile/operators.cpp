// The entries of the operators in the tile language.

#include "ops/registry.hpp"
#include "ops/tile/reverse_all2all.hpp"

namespace shmoe::ops {

namespace {

/// One head of H columns, S = T.
runtime::WorkspaceSize all2all_workspace(const runtime::CallShape& shape) {
  const All2AllShape tensor{.rows = shape.tokens, .heads = 1, .dim = shape.hidden, .dtype = shape.dtype};
  return {.symmetric = All2AllTasks(tensor, {}, shape.ranks).buffer_bytes()};
}

runtime::Operator all2all_entry(std::string_view name, std::string_view does) {
  return {
      .name = name,
      .family = "tile",
      .header = "ops/tile/reverse_all2all.hpp",
      .does = does,
      .calls = {name},
      .variants = {float_rows(), {"merge", {"none", "blocks"}}, {"programs", {"pairs", "each does both"}}, profiles()},
      .needs = {.slots = "barrier; credits [buffer][source][task]: declare_all2all in Config::declare_slots",
                .window = "All2AllTasks::buffer_bytes on every rank"},
      .stages = {"enter: BarrierAll", "producer: wait for 0, store, fence, notify 1",
                 "consumer: wait for 1, load, fence, notify 0"},
      .limits = {{.of = "S", .safe = {}},
                 {.of = "H", .safe = {.least = 1}},
                 {.of = "D", .safe = {.least = 1}},
                 {.of = "block_rows", .safe = {.least = 1}},
                 {.of = "block_dim", .safe = {.least = 1}},
                 {.of = "buffers", .safe = {.least = 1}, .besides = "at most those declared"},
                 {.of = "programs", .safe = {0, shmem::kMaxCores}, .besides = "0: as many as there are cores"}},
      .workspace = all2all_workspace,
  };
}

}  // namespace

void register_tile(runtime::Registry& registry) {
  registry.add(all2all_entry("reverse_all2all", "from all heads of some positions to some heads of all positions"));
  registry.add(all2all_entry("forward_all2all", "from some heads of all positions to all heads of some positions"));
}

}  // namespace shmoe::ops
