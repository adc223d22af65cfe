#pragma once
// What can be wrong with the arguments of a low-latency dispatch on its own rank.

#include <optional>

#include "ops/low_latency/dispatch.hpp"

namespace shmoe::ops {

/// Errors:  invalid_argument with what was given and what is taken
std::optional<Error> dispatch_low_latency_fault(const DispatchLowLatencyArgs& args, const runtime::Communicator& comm,
                                                const LowLatencyRegion& region);

/// Of calls in either direction: what is offered to tp domains of one rank only.
std::optional<Error> tp_fault(std::int32_t tp_world_size, Rank rank);

/// Whether pair k of a token takes part.
inline bool is_active(const DispatchLowLatencyArgs& args, std::int64_t token, std::int64_t k) {
  if (args.active_mask.empty()) return true;
  const bool for_tokens = args.active_mask.size() * static_cast<std::size_t>(args.topk) == args.expert_ids.size();
  return args.active_mask[static_cast<std::size_t>(for_tokens ? token : token * args.topk + k)] != 0;
}

}  // namespace shmoe::ops
