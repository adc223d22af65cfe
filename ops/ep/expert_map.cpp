#include "ops/ep/expert_map.hpp"

#include <utility>

#include "shmem/hash.hpp"

namespace shmoe::ops {

ExpertMap ExpertMap::even(std::int32_t experts, std::int32_t ranks) {
  SHMOE_EXPECTS(experts >= 1 && ranks >= 1, "{} experts on {} ranks: give at least one of each", experts, ranks);
  const std::int32_t run = (experts - 1) / ranks + 1;
  std::vector<Rank> owners;
  owners.reserve(static_cast<std::size_t>(experts));
  for (std::int32_t expert = 0; expert < experts; ++expert) owners.emplace_back(expert / run);
  return {std::move(owners), ranks};
}

Result<ExpertMap> ExpertMap::owned_by(std::vector<Rank> owners, std::int32_t ranks) {
  if (owners.empty() || ranks < 1) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("an owner table of {} experts on {} ranks: give at least one of each",
                                        owners.size(), ranks)};
  }
  for (std::size_t expert = 0; expert < owners.size(); ++expert) {
    if (owners[expert] < Rank{0} || owners[expert] >= Rank{ranks}) {
      return Error{.code = Errc::invalid_argument,
                   .context = fmt::format("expert {} is owned by rank {}, and there are {} ranks: give 0 to {}", expert,
                                          owners[expert], ranks, ranks - 1)};
    }
  }
  return ExpertMap{std::move(owners), ranks};
}

ExpertMap::ExpertMap(std::vector<Rank> owners, std::int32_t ranks)
    : owners_(std::move(owners)), local_(owners_.size()), first_(static_cast<std::size_t>(ranks) + 1) {
  for (const Rank owner : owners_) ++first_[owner.index() + 1];
  for (std::size_t rank = 1; rank < first_.size(); ++rank) first_[rank] += first_[rank - 1];

  by_owner_.resize(owners_.size());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  hash_ = shmem::fnv1a(shmem::kFnvStart, static_cast<std::uint64_t>(ranks));
  for (std::size_t expert = 0; expert < owners_.size(); ++expert) {
    const std::size_t owner = owners_[expert].index();
    local_[expert] = static_cast<std::int32_t>(next[owner] - first_[owner]);
    by_owner_[next[owner]++] = Expert{expert};
    hash_ = shmem::fnv1a(hash_, owner);
  }
}

std::span<const Expert> ExpertMap::experts_of(Rank rank) const {
  const std::size_t first = first_[rank.index()];
  return std::span{by_owner_}.subspan(first, first_[rank.index() + 1] - first);
}

}  // namespace shmoe::ops
