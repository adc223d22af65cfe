#pragma once
// The card that a rank shows its peers in the handshake at the entry of an operator.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shmem/layout.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

/// What a rank is about to call, as far as all ranks must agree on it.
class CallCard {
 public:
  static constexpr std::size_t kFields = 12;
  static constexpr std::size_t kNamedRanks = 64;

  explicit CallCard(std::string_view op);
  /// At most kFields of them; names of at most 15 characters.
  CallCard& with(std::string_view name, std::int64_t value);
  /// A list of ranks, the only one. All of them are compared; a difference behind the first kNamedRanks is not named.
  CallCard& with_ranks(std::string_view name, std::span<const Rank> ranks);

  /// Nothing where both agree, else "hidden is 128 on rank 3 and 64 on rank 0". Of a card whose digest is not that of its
  /// fields: whose that is, and nothing of what it says.
  [[nodiscard]] std::optional<std::string> difference(const CallCard& other, Rank mine, Rank theirs) const;

 private:
  /// Whether it is as with() has left it.
  [[nodiscard]] bool is_whole() const;
  struct Field {
    char name[16] = {};
    std::int64_t value = 0;
  };
  struct RankList {
    char name[16] = {};
    std::uint64_t digest = 0;  // of all
    std::uint64_t count = 0;
    std::int16_t first[kNamedRanks] = {};
  };
  [[nodiscard]] std::optional<std::string> ranks_difference(const CallCard& other, Rank mine, Rank theirs) const;

  std::uint64_t digest_;  // of all that difference() looks at; first, because whoever agrees reads no further
  char op_[24] = {};
  std::uint64_t count_ = 0;
  Field fields_[kFields] = {};
  RankList ranks_;
};
static_assert(sizeof(CallCard) <= shmem::kCardBytes);

}  // namespace shmoe::runtime
