#pragma once
// The operators of ops/, as runtime/registry describes them. Each folder says what it has; nothing registers itself, so no
// linker can leave an operator out.

#include "ops/ep/quant.hpp"
#include "runtime/registry.hpp"

namespace shmoe::ops {

/// In the order of a step: normal path, low latency, disaggregated attention, collectives, tiles, skeleton.
runtime::Registry all_operators();

void register_ep(runtime::Registry& registry);
void register_low_latency(runtime::Registry& registry);
void register_afd(runtime::Registry& registry);
void register_detour(runtime::Registry& registry);
void register_tile(runtime::Registry& registry);
void register_skeleton(runtime::Registry& registry);

// What the entries share.

constexpr Quant quant_of(const runtime::CallShape& shape) { return shape.int8_rows ? Quant::int8 : Quant::none; }

constexpr runtime::WorkspaceSize of_all_cores(const runtime::CallShape& shape, Bytes share, Bytes symmetric = {}) {
  return {.symmetric = symmetric, .own = share * static_cast<std::uint64_t>(shape.cores)};
}

inline runtime::Variant profiles() { return {"profile", {"safe", "faithful-2026-07", "faithful-2026-08"}}; }
inline runtime::Variant float_rows() { return {"rows", {"bf16", "fp16", "fp32"}}; }

/// The most that a 32-bit count of pairs holds.
inline constexpr std::int64_t kMostPairs = std::numeric_limits<std::int32_t>::max();

}  // namespace shmoe::ops
