#include "apps/shmoe/routing_source.hpp"

#include <algorithm>
#include <bit>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "shmem/hash.hpp"

namespace shmoe::apps {

Result<RoutingSource> RoutingSource::open(const RoutingChoice& choice) {
  RoutingSource source;
  source.at_most_ = choice.tokens;
  source.world_.experts = choice.experts;
  source.world_.seed = choice.seed;
  source.world_.topk = choice.topk.value_or(source.world_.topk);
  source.world_.tokens = choice.tokens.value_or(source.world_.tokens);
  RoutingRules rules{.topk_given = choice.topk.has_value(), .experts = choice.experts};
  rules.topk = choice.topk.value_or(rules.topk);
  for (const std::string& path : choice.files) {
    auto layer = read_routing_file(path, rules);
    if (!layer) return std::move(layer).error();
    source.world_.topk = layer->topk;
    source.layers_.push_back(*std::move(layer));
    const RoutingFile& first = source.layers_.front();
    if (source.world_.topk == first.topk) continue;
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("{} has top {} but {} has top {}: layers of one job have the same", first.path,
                                        first.topk, path, source.world_.topk)};
  }
  if (source.topk() > source.experts() && choice.files.empty()) {
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("top {} of {} experts: give a smaller --topk or more --experts", source.topk(),
                                        source.experts())};
  }
  return source;
}

std::uint64_t RoutingSource::digest() const {
  std::uint64_t hash = shmem::kFnvStart;
  const auto add = [&hash](std::uint64_t word) { hash = shmem::scattered(shmem::fnv1a(hash, word)); };
  for (const RoutingFile& layer : layers_) {
    add(layer.batches.size());
    for (const Batch& batch : layer.batches) {
      add(batch.topk_ids.size());
      add(batch.weights.size());
      for (const std::int64_t id : batch.topk_ids) add(static_cast<std::uint64_t>(id));
      for (const float weight : batch.weights) add(std::bit_cast<std::uint32_t>(weight));
    }
  }
  return hash;
}

std::string RoutingSource::description() const {
  if (layers_.empty()) return "drawn from measured load (OLMoE)";
  std::vector<std::string> names;
  for (const RoutingFile& layer : layers_) names.push_back(std::filesystem::path{layer.path}.filename());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string RoutingSource::weights() const {
  if (layers_.empty()) return "drawn";
  bool with = false;
  bool without = false;
  for (const RoutingFile& layer : layers_) {
    for (const Batch& batch : layer.batches) {
      with = with || !batch.weights.empty();
      without = without || (batch.weights.empty() && batch.tokens > 0);
    }
  }
  return !with ? "none" : without ? "from file, none in some lines" : "from file";
}

std::string RoutingSource::doubt() const {
  std::int64_t largest = -1;
  for (const RoutingFile& layer : layers_) {
    for (const Batch& batch : layer.batches) {
      if (!batch.topk_ids.empty()) largest = std::max(largest, *std::ranges::max_element(batch.topk_ids));
    }
  }
  if (layers_.empty() || 2 * (largest + 1) > experts()) return {};
  return fmt::format("largest id {} of {} experts; see --experts", largest, experts());
}

Batch RoutingSource::batch(std::int64_t step, Rank rank, std::int32_t ranks) const {
  if (layers_.empty()) return draw_batch(world_, step, rank);
  const auto count = static_cast<std::int64_t>(layers_.size());
  const std::vector<Batch>& lines = layers_[static_cast<std::size_t>(step % count)].batches;
  const auto line = static_cast<std::size_t>(step / count * ranks + rank.value()) % lines.size();
  Batch batch = lines[line];
  batch.topk = topk();
  if (at_most_ && *at_most_ < batch.tokens) {
    batch.tokens = *at_most_;
    const auto pairs = static_cast<std::size_t>(*at_most_) * static_cast<std::size_t>(topk());
    batch.topk_ids.resize(pairs);
    if (!batch.weights.empty()) batch.weights.resize(pairs);
  }
  return batch;
}

}  // namespace shmoe::apps
