#pragma once
// Which rank owns which expert.
//
//   expert   0 1 2 | 3 4 5 | 6           ceil split of 7 experts over 4 ranks: 3, 3, 1 and none
//   rank        0       1    2   (3)

#include <cstdint>
#include <span>
#include <vector>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// Every rank builds the same map; notify compares the hashes.
///
/// Shapes:  any number of experts and ranks from 1 on; a rank may own none
class ExpertMap {
 public:
  /// Runs of ceil(experts / ranks), so the last owner may hold fewer and the ranks after it none.
  ///
  /// Errors:  broken contract where experts or ranks is below 1
  /// Source:  owner(e) = e / (E / R) of the published operators, where E is a multiple of R
  static ExpertMap even(std::int32_t experts, std::int32_t ranks);

  /// An explicit owner of each expert.
  ///
  /// Errors:  invalid_argument: no experts, or an owner that is no rank
  static Result<ExpertMap> owned_by(std::vector<Rank> owners, std::int32_t ranks);

  [[nodiscard]] std::int32_t experts() const { return static_cast<std::int32_t>(owners_.size()); }
  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(first_.size()) - 1; }
  [[nodiscard]] Rank owner(Expert expert) const { return owners_[expert.index()]; }
  /// The place of an expert among those of its owner.
  [[nodiscard]] std::int32_t local_index(Expert expert) const { return local_[expert.index()]; }
  /// Ascending; may be empty.
  [[nodiscard]] std::span<const Expert> experts_of(Rank rank) const;
  /// Equal for equal maps.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  ExpertMap(std::vector<Rank> owners, std::int32_t ranks);

  std::vector<Rank> owners_;         // [E]
  std::vector<std::int32_t> local_;  // [E]
  std::vector<Expert> by_owner_;     // [E] sorted by owner, then expert
  std::vector<std::size_t> first_;   // [R+1] into by_owner_
  std::uint64_t hash_ = 0;
};

}  // namespace shmoe::ops
