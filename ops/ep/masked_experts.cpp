#include "ops/ep/masked_experts.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace shmoe::ops {

Result<MaskedExperts> MaskedExperts::of(const ExpertMap& before, std::span<const Rank> left) {
  std::vector<std::optional<Rank>> now(static_cast<std::size_t>(before.ranks()));
  for (std::size_t i = 0; i < left.size(); ++i) {
    const bool exists = left[i] >= Rank{0} && left[i] < Rank{before.ranks()};
    if (!exists || now[left[i].index()]) {
      return Error{.code = Errc::invalid_argument,
                   .context = fmt::format("rank {} is listed as left: it is none of the {} ranks of the expert map, or "
                                          "listed twice",
                                          left[i], before.ranks())};
    }
    now[left[i].index()] = Rank{i};
  }
  std::vector<Rank> owners;
  std::vector<Expert> masked;
  for (Expert expert{0}; expert.value() < before.experts(); ++expert) {
    const std::optional<Rank> owner = now[before.owner(expert).index()];
    if (!owner) masked.push_back(expert);
    owners.push_back(owner.value_or(Rank{0}));
  }
  Result<ExpertMap> map = ExpertMap::owned_by(std::move(owners), static_cast<std::int32_t>(left.size()));
  if (!map) return std::move(map).error();
  return MaskedExperts(*std::move(map), std::move(masked));
}

void MaskedExperts::apply(const Routing& routing, Routing& kept) const {
  kept.assign(routing, [&](std::size_t, std::int64_t id) {
    const bool expert = id >= 0 && id < map_.experts();
    return expert && std::ranges::binary_search(masked_, Expert{id}) ? -1 : id;
  });
}

}  // namespace shmoe::ops
