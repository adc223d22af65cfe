#pragma once
// Going on without the experts of ranks that are gone.
//
//   expert   0 1 | 2 3 | 4 5 | 6 7        rank 1 is gone: ranks 0 2 3 are 0 1 2 now
//   rank      0     x     1     2         pairs for experts 2 and 3 become -1
//
// Ids stay, so routers and weights need no change. Terms that are dropped are missing in combine's sum; the weights of the
// others are not scaled up, and a token with no other experts becomes zeros.

#include <span>
#include <vector>

#include "ops/ep/expert_map.hpp"
#include "ops/ep/routing.hpp"
#include "shmem/result.hpp"

namespace shmoe::ops {

class MaskedExperts {
 public:
  /// `before`: of the job as it started. `left`: those of its ranks that are left, in their new order: the members() of
  /// what World::without_lost made.
  ///
  /// Errors:  invalid_argument: nobody is left, or a rank that the map does not have or that is listed twice
  static Result<MaskedExperts> of(const ExpertMap& before, std::span<const Rank> left);

  /// Over the ranks that are left. A masked expert is listed as rank 0's, which receives no rows for it.
  [[nodiscard]] const ExpertMap& map() const { return map_; }
  /// Ascending.
  [[nodiscard]] const std::vector<Expert>& masked() const { return masked_; }

  /// The routing without pairs for masked experts, in the memory that `kept` has. An id that is no expert stays, and layout
  /// refuses it.
  void apply(const Routing& routing, Routing& kept) const;

 private:
  MaskedExperts(ExpertMap map, std::vector<Expert> masked) : map_(std::move(map)), masked_(std::move(masked)) {}

  ExpertMap map_;
  std::vector<Expert> masked_;
};

}  // namespace shmoe::ops
