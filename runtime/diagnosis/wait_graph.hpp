#pragma once
// Who waits for whom at one moment, through all communicators, and who does not wait. Ranks are world ranks.
//
//   rank 0 --> rank 1 --> rank 3        rank 3 is in the middle of an operator: it is the root, ranks 0 to 2 are behind it
//   rank 2 -------------> rank 3

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/diagnosis/sight.hpp"

namespace shmoe::runtime {

enum class Standing : std::uint8_t {
  goes_on,  // a core of it runs, or its wait is over and it has not seen so yet
  waits,    // its cores that are in an operator all wait
  outside,  // between operators
  ended,
};

std::string_view name_of(Standing standing);

/// Ranks that do the same.
struct RankGroup {
  std::vector<Rank> ranks;
  Standing standing = Standing::outside;
  std::string op;
  Round round;
  const Sight* in = nullptr;  // the communicator whose operator it is; nothing between operators
};

class WaitGraph {
 public:
  /// One sight a communicator; they outlive the graph. `ended`: by world rank.
  WaitGraph(std::span<const Sight> sights, const std::vector<bool>& ended);

  [[nodiscard]] Standing standing(Rank rank) const { return standing_[rank.index()]; }
  /// The other ranks of which one could end a wait of this one.
  [[nodiscard]] const std::vector<Rank>& waits_for(Rank rank) const { return edges_[rank.index()]; }

  struct Root {
    Rank rank;
    std::vector<Rank> behind;  // who waits for it in the communicator, at once or through others
  };
  /// The rank that does not wait and has the most behind it that wait in the communicator; nothing where nobody there waits
  /// for such a one.
  [[nodiscard]] std::optional<Root> root(const Sight& in) const;
  /// The members of a communicator, by their first rank.
  [[nodiscard]] std::vector<RankGroup> groups(const Sight& of) const;

 private:
  [[nodiscard]] Standing find_standing(Rank rank, bool ended) const;
  [[nodiscard]] std::vector<Rank> behind(Rank rank, const Sight& in) const;
  [[nodiscard]] RankGroup alone(Rank rank) const;

  std::span<const Sight> sights_;
  std::vector<Standing> standing_;
  std::vector<std::vector<Rank>> edges_;  // of those that wait
};

}  // namespace shmoe::runtime
