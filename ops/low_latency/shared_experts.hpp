#pragma once
// Experts that every token goes to, on ranks of their own.
//
//   S = 2 experts, N = 4 ranks, R = 7       rank      0 1 | 2 3 | 4 5 6
//   a token of rank 5 goes to ranks 1 and 3           s0    s1    routed experts

#include <cstdint>

#include "ops/ep/expert_map.hpp"
#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// The first N ranks hold them, N / S copies of each; a rank sends its tokens to one copy of each.
struct SharedExperts {
  std::int32_t experts = 0;  // S
  std::int32_t ranks = 0;    // N: a multiple of S, below R

  bool operator==(const SharedExperts&) const = default;
  [[nodiscard]] Rank rank_for(std::int32_t expert, Rank source) const {
    const std::int32_t copies = ranks / experts;
    return Rank{expert * copies + source.value() % copies};
  }
};

/// Routed experts in even runs over the ranks behind the shared ones.
///
/// Errors:  invalid_argument: no experts, or no ranks left for them
/// Source:  owner(e) = e / (E / (R - N)) + N of the published operators, where E is a multiple of R - N
Result<ExpertMap> experts_behind(const SharedExperts& shared, std::int32_t experts, std::int32_t ranks);

}  // namespace shmoe::ops
