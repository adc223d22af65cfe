#include "apps/shmoe/synthetic_routing.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "apps/shmoe/counter_random.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {
namespace {

// Per mille of the selections of OLMoE-1B-7B-0924, top 8 of 64, layer 7, domain "book"; hottest 4.0 times the mean.
// Source: routing counts published with allenai/OLMoE (Apache-2.0), rounded.
constexpr std::array<std::uint8_t, 64> kShares{3,  5,  4,  53, 4,  13, 13, 4,  27, 21, 14, 8, 8,  2,  20, 2,
                                               9,  3,  10, 17, 22, 11, 15, 26, 9,  12, 8,  4, 63, 11, 16, 10,
                                               13, 5,  13, 3,  7,  9,  11, 7,  18, 24, 16, 4, 42, 10, 12, 3,
                                               26, 11, 25, 23, 15, 10, 25, 62, 25, 22, 11, 2, 22, 16, 42, 19};

/// The experts side by side, each as wide as its share.
class Line {
 public:
  explicit Line(std::int32_t experts) {
    ends_.reserve(static_cast<std::size_t>(experts));
    for (std::int32_t expert = 0; expert < experts; ++expert) ends_.push_back(width() + load_share(Expert{expert}));
  }
  [[nodiscard]] std::uint64_t width() const { return ends_.empty() ? 0 : ends_.back(); }

  /// The expert at `ticket` on what is left of the line without the experts of `taken`, which are ascending.
  [[nodiscard]] std::int64_t at(std::uint64_t ticket, const std::vector<std::int64_t>& taken) const {
    for (const std::int64_t gap : taken) {
      const std::uint64_t share = load_share(Expert{gap});
      if (ticket < ends_[static_cast<std::size_t>(gap)] - share) break;
      ticket += share;
    }
    return std::upper_bound(ends_.begin(), ends_.end(), ticket) - ends_.begin();
  }

 private:
  std::vector<std::uint64_t> ends_;
};

/// Squared, so that the first few experts of a token carry most of the weight, as in recordings.
std::uint64_t raw_weight(std::uint64_t random) {
  const std::uint64_t base = 1 + (random >> 56);
  return base * base;
}

void draw_token(const Line& line, std::int32_t topk, std::uint64_t key, Batch& batch) {
  std::uint64_t left = line.width();
  std::vector<std::uint64_t> raw;
  std::vector<std::int64_t> taken;
  for (std::int32_t k = 0; k < topk; ++k) {
    const std::uint64_t random = random_at({key, static_cast<std::uint64_t>(k)});
    const std::int64_t expert = line.at((random & 0xFFFF'FFFFU) % left, taken);
    left -= load_share(Expert{expert});
    taken.insert(std::lower_bound(taken.begin(), taken.end(), expert), expert);
    batch.topk_ids.push_back(expert);
    raw.push_back(raw_weight(random));
  }
  const auto total = static_cast<float>(std::accumulate(raw.begin(), raw.end(), std::uint64_t{0}));
  for (const std::uint64_t weight : raw) batch.weights.push_back(static_cast<float>(weight) / total);
}

}  // namespace

std::uint32_t load_share(Expert expert) { return kShares[expert.index() % kShares.size()]; }

Batch draw_batch(const SyntheticWorld& world, std::int64_t step, Rank rank) {
  SHMOE_EXPECTS(world.topk >= 1 && world.topk <= world.experts, "top {} of {} experts", world.topk, world.experts);
  const Line line(world.experts);
  Batch batch{world.tokens, world.topk, {}, {}};
  for (std::int64_t token = 0; token < world.tokens; ++token) {
    const std::uint64_t key = random_at({world.seed, static_cast<std::uint64_t>(step),
                                         static_cast<std::uint64_t>(rank.value()), static_cast<std::uint64_t>(token)});
    draw_token(line, world.topk, key, batch);
  }
  return batch;
}

}  // namespace shmoe::apps
