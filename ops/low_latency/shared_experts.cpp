#include "ops/low_latency/shared_experts.hpp"

#include <utility>
#include <vector>

namespace shmoe::ops {

Result<ExpertMap> experts_behind(const SharedExperts& shared, std::int32_t experts, std::int32_t ranks) {
  const std::int32_t left = ranks - shared.ranks;
  if (experts < 1 || left < 1) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("{} routed experts on {} ranks, of which {} hold shared experts: leave one "
                                        "rank for a routed expert at least",
                                        experts, ranks, shared.ranks)};
  }
  const ExpertMap behind = ExpertMap::even(experts, left);
  std::vector<Rank> owners;
  owners.reserve(static_cast<std::size_t>(experts));
  for (Expert expert{0}; expert.value() < experts; ++expert) {
    owners.emplace_back(shared.ranks + behind.owner(expert).value());
  }
  return ExpertMap::owned_by(std::move(owners), ranks);
}

}  // namespace shmoe::ops
