#include "ops/low_latency/dispatch_faults.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ops/ep/place.hpp"

namespace shmoe::ops {

namespace {

using DispatchFault = std::optional<Error>;
using DispatchCheck = DispatchFault (*)(const DispatchLowLatencyArgs&, const runtime::Communicator&,
                                        const LowLatencyRegion&);

DispatchFault refuse_dispatch(const runtime::Communicator& comm, std::string text) {
  return fault_of(comm.rank(), Errc::invalid_argument, std::move(text));
}

DispatchFault type_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                         const LowLatencyRegion& /*region*/) {
  if (is_known(args.dtype) && is_known(args.quant) && args.expert_token_nums <= GroupList::cumulative) {
    return std::nullopt;
  }
  return refuse_dispatch(comm, fmt::format("dtype {}, quantisation {} and expert_token_nums {}: take a DType, a Quant "
                                           "and a GroupList that there are",
                                           static_cast<int>(args.dtype), static_cast<int>(args.quant),
                                           static_cast<int>(args.expert_token_nums)));
}

DispatchFault expert_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                           const LowLatencyRegion& region) {
  if (args.experts.ranks() != comm.ranks()) {
    return refuse_dispatch(comm,
                           fmt::format("the expert map is for {} ranks, the communicator has {}: build it for as many",
                                       args.experts.ranks(), comm.ranks()));
  }
  const SharedExperts& shared = args.shared;
  const bool none = shared == SharedExperts{};
  if (!none &&
      (shared.experts < 1 || shared.ranks < 1 || shared.ranks % shared.experts != 0 || shared.ranks >= comm.ranks())) {
    return refuse_dispatch(
        comm, fmt::format("{} shared experts on {} of {} ranks: the ranks are a multiple of the experts, and one "
                          "is left for routed experts at least",
                          shared.experts, shared.ranks, comm.ranks()));
  }
  const std::int64_t columns = std::int64_t{shared.ranks} + args.experts.experts();
  if (columns > region.most_columns()) {
    return refuse_dispatch(
        comm, fmt::format("{} routed experts and {} shared ranks have {} counts, the low-latency region has room "
                          "for {}: take fewer experts, or layout, notify and dispatch_normal",
                          args.experts.experts(), shared.ranks, columns, region.most_columns()));
  }
  return std::nullopt;
}

DispatchFault token_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                          const LowLatencyRegion& /*region*/) {
  if (args.topk < 1 || args.topk > args.experts.experts()) {
    return refuse_dispatch(comm, fmt::format("top-k is {} of {} experts: pass 1 to {}", args.topk,
                                             args.experts.experts(), args.experts.experts()));
  }
  const std::size_t ids = args.expert_ids.size();
  if (ids % static_cast<std::size_t>(args.topk) != 0) {
    return refuse_dispatch(
        comm, fmt::format("{} expert ids are no whole number of tokens of top-k {}: give T x K", ids, args.topk));
  }
  const std::uint64_t tokens = ids / static_cast<std::size_t>(args.topk);
  const std::uint64_t pairs = tokens * static_cast<std::uint64_t>(args.topk + args.shared.experts);
  if (pairs > std::numeric_limits<std::int32_t>::max()) {
    return refuse_dispatch(comm, fmt::format("{} pairs do not fit 32-bit counts: send fewer tokens at a time", pairs));
  }
  if (args.hidden < 1 || args.hidden > kMostHidden || args.capacity < 0) {
    return refuse_dispatch(comm, fmt::format("hidden is {} and the capacity {} rows: hidden must be in [1, {}], the "
                                             "capacity 0 or more",
                                             args.hidden, args.capacity, kMostHidden));
  }
  const std::uint64_t bytes = tokens * row_bytes(args.dtype, args.hidden);
  if (args.x.size() != bytes) {
    return refuse_dispatch(comm, fmt::format("x has {} bytes, {} tokens of {} {} have {}: make it as long",
                                             args.x.size(), tokens, args.hidden, shmoe::name_of(args.dtype), bytes));
  }
  return std::nullopt;
}

DispatchFault id_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                       const LowLatencyRegion& /*region*/) {
  const std::int32_t experts = args.experts.experts();
  const auto bad = std::find_if(args.expert_ids.begin(), args.expert_ids.end(),
                                [&](std::int32_t id) { return id < -1 || id >= experts; });
  if (bad == args.expert_ids.end()) return std::nullopt;
  const std::int64_t pair = bad - args.expert_ids.begin();
  return refuse_dispatch(
      comm, fmt::format("token {}, k {}: expert id {} is not in [-1, {}): mend the id, or give -1 to drop the pair",
                        pair / args.topk, pair % args.topk, *bad, experts));
}

DispatchFault mask_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                         const LowLatencyRegion& /*region*/) {
  const std::size_t size = args.active_mask.size();
  const std::size_t pairs = args.expert_ids.size();
  if (size != 0 && size != pairs && size * static_cast<std::size_t>(args.topk) != pairs) {
    return refuse_dispatch(
        comm, fmt::format("the active mask has {} entries: give one for each of {} tokens, or of {} pairs", size,
                          pairs / static_cast<std::size_t>(args.topk), pairs));
  }
  const auto bad = std::find_if(args.active_mask.begin(), args.active_mask.end(), [](auto entry) { return entry > 1; });
  if (bad == args.active_mask.end()) return std::nullopt;
  return refuse_dispatch(
      comm, fmt::format("entry {} of the active mask is {}: give 0 or 1", bad - args.active_mask.begin(), *bad));
}

DispatchFault quant_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                          const LowLatencyRegion& /*region*/) {
  if (args.quant == Quant::none) {
    if (args.scales.empty() && !args.static_scale) return std::nullopt;
    return refuse_dispatch(
        comm, "smooth scales and static_scale go with int8 rows, and quant is none: leave them out, or take int8");
  }
  const std::uint64_t rows =
      static_cast<std::uint64_t>(args.shared.experts) + static_cast<std::uint64_t>(args.experts.experts());
  const std::uint64_t entries = rows * static_cast<std::uint64_t>(args.hidden);
  if (!args.scales.empty() && args.scales.size() != entries) {
    return refuse_dispatch(comm,
                           fmt::format("{} smooth scales, {} experts with {} columns have {}: give one for each column",
                                       args.scales.size(), rows, args.hidden, entries));
  }
  if (args.static_scale && !(std::isfinite(*args.static_scale) && *args.static_scale > 0)) {
    return refuse_dispatch(comm, fmt::format("static_scale is {}: give a finite number above 0", *args.static_scale));
  }
  return std::nullopt;
}

/// Of a buffer that peers write while this rank reads x.
DispatchFault arrival_fault(const RowBuffer& buffer, const OwnMemory& x, const runtime::Communicator& comm) {
  if (DispatchFault fault = place_fault(buffer, comm)) return fault;
  return overlap_fault(x, own_part(buffer, comm), comm.rank());
}

DispatchFault buffer_place_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                                 const LowLatencyRegion& /*region*/) {
  const RowBuffer rows{.name = "expand_x",
                       .at = args.expand_x,
                       .rows = args.capacity,
                       .row_bytes = row_bytes(args.dtype, args.hidden, args.quant)};
  const RowBuffer scales{.name = "dynamic_scales",
                         .at = args.dynamic_scales,
                         .rows = args.quant == Quant::int8 ? args.capacity : 0,
                         .row_bytes = sizeof(float),
                         .alignment = sizeof(float)};
  const OwnMemory x{"x", args.x};
  if (DispatchFault fault = arrival_fault(rows, x, comm)) return fault;
  if (DispatchFault fault = arrival_fault(scales, x, comm)) return fault;
  return overlap_fault(own_part(rows, comm), own_part(scales, comm), comm.rank());
}

DispatchFault unsupported_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                                const LowLatencyRegion& /*region*/) {
  if (DispatchFault fault = tp_fault(args.tp_world_size, comm.rank())) return fault;
  if (args.comm_alg > CommAlg::fullmesh_v2) {
    return refuse_dispatch(
        comm, fmt::format("{} is no algorithm: take standard or fullmesh_v1", static_cast<int>(args.comm_alg)));
  }
  if (args.comm_alg != CommAlg::fullmesh_v2) return std::nullopt;
  return refuse_dispatch(
      comm,
      "fullmesh_v2 is not offered: its kernel was never published, and a rank that ran nothing would leave "
      "its peers waiting; take standard or fullmesh_v1");
}

/// What the published kernels take and do not look at.
DispatchFault ignored_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                            const LowLatencyRegion& /*region*/) {
  if (comm.profile().handshake) return std::nullopt;
  const auto ignored = [&](std::string_view what) {
    return refuse_dispatch(comm, fmt::format("{} in profile {}: the published kernel ignores that; take profile safe",
                                             what, name_of(comm.profile().id)));
  };
  if (std::find(args.active_mask.begin(), args.active_mask.end(), 0) != args.active_mask.end()) {
    return ignored("an active mask with an inactive token");
  }
  if (!args.scales.empty()) return ignored("smooth scales");
  if (args.static_scale)
    return refuse_dispatch(comm, fmt::format("static int8 in profile {}: the published kernel would store an "
                                             "infinite scale; take profile safe",
                                             name_of(comm.profile().id)));
  if (args.shared.experts != 0) return ignored("shared experts");
  if (comm.ranks() <= 8 * comm.cores()) return std::nullopt;
  return refuse_dispatch(
      comm, fmt::format("{} ranks in profile {}: the published layout status has room for 8 x {} cores, and ranks "
                        "beyond it would not be waited for; take profile safe",
                        comm.ranks(), name_of(comm.profile().id), comm.cores()));
}

}  // namespace

std::optional<Error> tp_fault(std::int32_t tp_world_size, Rank rank) {
  if (tp_world_size == 0 || tp_world_size == 1) return std::nullopt;
  return fault_of(
      rank, Errc::invalid_argument,
      fmt::format("tp_world_size is {}: tp domains of several ranks are not offered here, pass 1 and gather "
                  "within the domain",
                  tp_world_size));
}

std::optional<Error> dispatch_low_latency_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                                                const LowLatencyRegion& region) {
  constexpr DispatchCheck kChecks[] = {type_fault,  expert_fault,       token_fault,       id_fault,     mask_fault,
                                       quant_fault, buffer_place_fault, unsupported_fault, ignored_fault};
  for (const DispatchCheck check : kChecks) {
    if (DispatchFault fault = check(args, comm, region)) return fault;
  }
  return std::nullopt;
}

}  // namespace shmoe::ops
