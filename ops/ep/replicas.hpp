#pragma once
// Redundant experts: a busy expert has several copies, and each pair is sent to one of them.
//
//   logical    0      1    2      | shared: from L = 3 on, on every token
//   physical   0 3    1    2 4    | P = 5, ...                  ids of ExpertMap, layout, dispatch and combine
//
// The router knows logical experts; everything after it knows physical ones.

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ep/routing.hpp"
#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// Every rank builds the same map.
class ReplicaMap {
 public:
  /// replicas[l]: the physical experts that are copies of logical expert l.
  ///
  /// Errors:  invalid_argument: no expert, one without a copy, or physical experts that are not 0 .. P-1, each once
  static Result<ReplicaMap> of(const std::vector<std::vector<std::int64_t>>& replicas);

  [[nodiscard]] std::int64_t logical() const { return static_cast<std::int64_t>(first_.size()) - 1; }
  [[nodiscard]] std::int64_t physical() const { return static_cast<std::int64_t>(replicas_.size()); }
  [[nodiscard]] std::span<const std::int64_t> replicas_of(std::int64_t logical) const;

  /// The copy that pair `pair` = t * K + k of a rank goes to. It depends on nothing else, and pairs in any regular pattern
  /// spread evenly over the copies. Ids from L on are shared experts, which have no copies: they keep their order after
  /// the physical ones. Negative ids stay.
  [[nodiscard]] std::int64_t physical_of(std::int64_t id, Rank rank, std::size_t pair) const;

  /// The routing of a rank by physical experts, in the memory that `physical` has. An id that is no expert is none
  /// afterwards either, and layout refuses it.
  void apply(const Routing& logical, Rank rank, Routing& physical) const;

 private:
  ReplicaMap() = default;

  std::vector<std::int64_t> replicas_;  // [P] sorted by logical expert
  std::vector<std::size_t> first_;      // [L+1] into replicas_
};

}  // namespace shmoe::ops
