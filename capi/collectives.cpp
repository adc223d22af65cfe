#include "capi/handles.hpp"
#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/detour/window.hpp"

using namespace shmoe;
using namespace shmoe::capi;

namespace {

ops::Element element(std::int32_t type) {
  constexpr ops::Element kElements[] = {ops::Element::bf16, ops::Element::fp16, ops::Element::fp32,
                                        ops::Element::int32};
  static_assert(SHMOE_BF16 == 0 && SHMOE_FP16 == 1 && SHMOE_FP32 == 2 && SHMOE_INT32 == 3);
  return kElements[choice<std::size_t>(type, 4, "args->type")];
}

/// What both collectives take; `members` lends the memory.
template <class Args>
ops::DetourShape collective_of(const Args& given, std::vector<Rank>& members) {
  const auto listed = tensor(given.members, static_cast<std::int64_t>(given.members_count));
  for (const std::int32_t member : listed) members.emplace_back(member);
  return {.members = members,
          .type = element(given.type),
          .elements = given.elements,
          .window = {Offset{given.window}, Bytes{given.window_bytes}}};
}

}  // namespace

shmoe_status shmoe_window_allocate(shmoe_communicator* comm, std::uint64_t* offset, std::uint64_t* bytes) {
  return call("shmoe_window_allocate", [&] {
    std::uint64_t& at = need(offset, "offset");
    std::uint64_t& size = need(bytes, "bytes");
    const shmem::Region window = value_of(ops::allocate_window(need(comm, "comm").held.comm()));
    at = window.at.value();
    size = window.size.value();
  });
}

shmoe_status shmoe_all_to_all(shmoe_communicator* comm, const shmoe_all_to_all_args* args) {
  return call("shmoe_all_to_all", [&] {
    const shmoe_all_to_all_args given = taken(args, "args");
    std::vector<Rank> members;
    done(ops::all_to_all_detour(need(comm, "comm").held.comm(), {.shape = collective_of(given, members),
                                                                 .x = bytes(given.x, given.x_bytes),
                                                                 .y = bytes(given.y, given.y_bytes),
                                                                 .y_at = place(given.y_at)}));
  });
}

shmoe_status shmoe_reduce_scatter(shmoe_communicator* comm, const shmoe_reduce_scatter_args* args) {
  return call("shmoe_reduce_scatter", [&] {
    const shmoe_reduce_scatter_args given = taken(args, "args");
    std::vector<Rank> members;
    done(ops::reduce_scatter_detour(need(comm, "comm").held.comm(),
                                    {.shape = collective_of(given, members),
                                     .reduction = choice<ops::Reduction>(given.reduction, 3, "args->reduction"),
                                     .x = bytes(given.x, given.x_bytes),
                                     .x_at = place(given.x_at),
                                     .y = bytes(given.y, given.y_bytes)}));
  });
}
