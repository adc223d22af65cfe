#pragma once
// Where the members of a communicator that has lost some settle who is gone: once for each communicator that may be made
// of those who are left, in the first block of every rank.
//
//   | chosen 8 | unused 24 | gone: a bit a rank of the job, in words of 8 |
//
// Each member notes whom it finds gone in its own memory; then one of them is chosen, in the memory of the first member,
// and its note holds for all. Memory outlives its rank, so neither is lost with whoever wrote it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shmem/types.hpp"

namespace shmoe::shmem {

class RollCall {
 public:
  static constexpr Bytes size(std::int32_t ranks) {
    return Bytes{32 + round_up(static_cast<std::uint64_t>(ranks), 256) / 8};
  }

  /// `place`: size(ranks) bytes, all zeros at first.
  RollCall(std::byte* place, std::int32_t ranks) : place_(place), ranks_(ranks) {}

  /// Once, before the rank that owns the memory asks to be chosen.
  void note(const std::vector<Rank>& gone);
  [[nodiscard]] std::vector<Rank> gone() const;

  /// The first one that asks; the same to all.
  /// Order:   what the chosen one has noted is readable.
  Rank choose(Rank candidate);
  /// Nothing where nobody has asked.
  /// Order:   as choose.
  [[nodiscard]] std::optional<Rank> chosen() const;

 private:
  [[nodiscard]] std::uint64_t* word(std::size_t index) const {
    return reinterpret_cast<std::uint64_t*>(place_) + index;
  }

  std::byte* place_;
  std::int32_t ranks_;
};

}  // namespace shmoe::shmem
