#include "ops/ep/replicas.hpp"

#include <limits>

namespace shmoe::ops {

namespace {

Error bad_map(std::string text) { return Error{.code = Errc::invalid_argument, .context = std::move(text)}; }

/// Multiples of it modulo 2^64, read as fractions, lie evenly however many there are.
constexpr std::uint64_t kGoldenRatio = 0x9E37'79B9'7F4A'7C15U;

/// In [0, n).
std::size_t spread(std::uint64_t number, std::size_t n) {
  return static_cast<std::size_t>(((number * kGoldenRatio) >> 32) * n >> 32);
}

}  // namespace

Result<ReplicaMap> ReplicaMap::of(const std::vector<std::vector<std::int64_t>>& replicas) {
  if (replicas.empty()) return bad_map("a replica map without experts");
  ReplicaMap map;
  map.first_.push_back(0);
  for (const std::vector<std::int64_t>& copies : replicas) {
    if (copies.empty()) return bad_map(fmt::format("logical expert {} has no copy", map.logical()));
    map.replicas_.insert(map.replicas_.end(), copies.begin(), copies.end());
    map.first_.push_back(map.replicas_.size());
  }
  std::vector<bool> seen(map.replicas_.size());
  for (const std::int64_t expert : map.replicas_) {
    if (expert < 0 || expert >= map.physical() || seen[static_cast<std::size_t>(expert)]) {
      return bad_map(fmt::format("physical expert {} of a replica map: {} copies are 0 .. {}, each once", expert,
                                 map.physical(), map.physical() - 1));
    }
    seen[static_cast<std::size_t>(expert)] = true;
  }
  return map;
}

std::span<const std::int64_t> ReplicaMap::replicas_of(std::int64_t logical) const {
  SHMOE_EXPECTS(logical >= 0 && logical < this->logical(), "logical expert {} of {}", logical, this->logical());
  const auto at = static_cast<std::size_t>(logical);
  return std::span{replicas_}.subspan(first_[at], first_[at + 1] - first_[at]);
}

std::int64_t ReplicaMap::physical_of(std::int64_t id, Rank rank, std::size_t pair) const {
  if (id < 0) return id;
  if (id < logical()) {
    const std::span<const std::int64_t> copies = replicas_of(id);
    return copies[spread((static_cast<std::uint64_t>(rank.index()) << 40) + pair, copies.size())];
  }
  const std::int64_t shift = physical() - logical();
  return id > std::numeric_limits<std::int64_t>::max() - shift ? id : id + shift;
}

void ReplicaMap::apply(const Routing& logical, Rank rank, Routing& physical) const {
  physical.assign(logical, [&](std::size_t pair, std::int64_t id) { return physical_of(id, rank, pair); });
}

}  // namespace shmoe::ops
