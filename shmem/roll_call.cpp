#include "shmem/roll_call.hpp"

#include <atomic>

namespace shmoe::shmem {
namespace {

constexpr std::size_t kGone = 4;  // the first word of bits

}  // namespace

void RollCall::note(const std::vector<Rank>& gone) {
  for (const Rank rank : gone) {
    std::atomic_ref(*word(kGone + rank.index() / 64)).fetch_or(std::uint64_t{1} << rank.index() % 64);
  }
}

std::vector<Rank> RollCall::gone() const {
  std::vector<Rank> gone;
  for (Rank rank{0}; rank.value() < ranks_; ++rank) {
    const std::uint64_t bits = std::atomic_ref(*word(kGone + rank.index() / 64)).load();
    if ((bits >> rank.index() % 64 & 1) != 0) gone.push_back(rank);
  }
  return gone;
}

Rank RollCall::choose(Rank candidate) {
  std::uint64_t nobody = 0;
  const std::uint64_t mine = candidate.index() + 1;
  return std::atomic_ref(*word(0)).compare_exchange_strong(nobody, mine) ? candidate : Rank{nobody - 1};
}

std::optional<Rank> RollCall::chosen() const {
  const std::uint64_t word = std::atomic_ref(*this->word(0)).load();
  if (word == 0) return std::nullopt;
  return Rank{word - 1};
}

}  // namespace shmoe::shmem
