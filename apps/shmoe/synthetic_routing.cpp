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

/// Where each share begins when they lie side by side, and where the last ends.
constexpr std::array<std::uint64_t, kShares.size() + 1> kStarts = [] {
  std::array<std::uint64_t, kShares.size() + 1> starts{};
  for (std::size_t i = 0; i < kShares.size(); ++i) starts[i + 1] = starts[i] + kShares[i];
  return starts;
}();

/// The experts side by side, each as wide as its share; the shares repeat. With `expert` the number of all it is the
/// width of the line.
std::uint64_t start_of(std::int64_t expert) {
  const auto place = static_cast<std::uint64_t>(expert);
  return place / kShares.size() * kStarts.back() + kStarts[place % kShares.size()];
}

/// The expert at `ticket` on what is left of the line without the experts of `taken`, which are ascending.
std::int64_t expert_at(std::uint64_t ticket, const std::vector<std::int64_t>& taken) {
  for (const std::int64_t gap : taken) {
    if (ticket < start_of(gap)) break;
    ticket += load_share(Expert{gap});
  }
  const auto next = std::upper_bound(kStarts.begin(), kStarts.end(), ticket % kStarts.back());
  return static_cast<std::int64_t>(ticket / kStarts.back() * kShares.size()) + (next - kStarts.begin()) - 1;
}

/// Squared, so that the first few experts of a token carry most of the weight, as in recordings.
std::uint64_t raw_weight(std::uint64_t random) {
  const std::uint64_t base = 1 + (random >> 56);
  return base * base;
}

void draw_token(const SyntheticWorld& world, std::uint64_t key, Batch& batch) {
  std::uint64_t left = start_of(world.experts);
  std::vector<std::uint64_t> raw;
  std::vector<std::int64_t> taken;
  for (std::int32_t k = 0; k < world.topk; ++k) {
    const std::uint64_t random = random_at({key, static_cast<std::uint64_t>(k)});
    const std::int64_t expert = expert_at((random & 0xFFFF'FFFFU) % left, taken);
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
  Batch batch{world.tokens, world.topk, {}, {}};
  for (std::int64_t token = 0; token < world.tokens; ++token) {
    const std::uint64_t key = random_at({world.seed, static_cast<std::uint64_t>(step),
                                         static_cast<std::uint64_t>(rank.value()), static_cast<std::uint64_t>(token)});
    draw_token(world, key, batch);
  }
  return batch;
}

}  // namespace shmoe::apps
