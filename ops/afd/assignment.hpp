#pragma once
// Which ranks hold experts, which run attention, and who serves whom.
//
//   E = 2, A = 5     rank             0  1 | 2  3  4  5  6
//                    belongs to            | 0  1  0  1  0       r mod E
//                    index there           | 0  0  1  1  2       r / E - 1
//                    serves           3  2

#include <cstdint>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::ops {

/// Shapes:  any E, A >= 1; where E > A the expert ranks from A on serve nobody
/// Source:  static assignment of the published a2e and e2a, which take E <= A only
class Assignment {
 public:
  /// Errors:  invalid_argument: no expert rank, or no attention rank
  static Result<Assignment> of(std::int32_t experts, std::int32_t attention);

  [[nodiscard]] std::int32_t experts() const { return experts_; }
  [[nodiscard]] std::int32_t attention() const { return attention_; }
  [[nodiscard]] std::int32_t ranks() const { return experts_ + attention_; }
  [[nodiscard]] bool is_expert(Rank rank) const { return rank.value() < experts_; }

  /// Of an attention rank.
  [[nodiscard]] Rank expert_of(Rank rank) const { return Rank{rank.value() % experts_}; }
  /// Its place among those that its expert rank serves.
  [[nodiscard]] std::int32_t index_of(Rank rank) const { return rank.value() / experts_ - 1; }

  bool operator==(const Assignment&) const = default;

  /// How many attention ranks an expert rank serves.
  [[nodiscard]] std::int32_t served(Rank expert) const {
    return attention_ / experts_ + (expert.value() < attention_ % experts_ ? 1 : 0);
  }
  [[nodiscard]] Rank attention_rank(Rank expert, std::int32_t index) const {
    return Rank{expert.value() + (index + 1) * experts_};
  }

 private:
  Assignment(std::int32_t experts, std::int32_t attention) : experts_(experts), attention_(attention) {}

  std::int32_t experts_;
  std::int32_t attention_;
};

}  // namespace shmoe::ops
