#include "ops/detour/choose.hpp"

#include <algorithm>
#include <vector>

namespace shmoe::ops {
namespace {

Choice choose_collective(std::string_view detour, const NeedSize& size) {
  if (size.communicating >= size.ranks) {
    return {detour, "with the group of all ranks: nobody is left whose memory could be a further way"};
  }
  if (size.bytes >= kDetourLimit) {
    return {detour, "on a communicator of the communicating ranks alone: from 1 MB on the tree takes the direct way"};
  }
  return {detour, "with the group of the communicating ranks: less than 1 MB, and the others lend their memory",
          Way::detour};
}

/// Calls act(from, to, elements) for each link that an exchange uses.
template <class Act>
void each_link(const DetourGroup& group, std::int64_t elements, Way way, const Act& act) {
  const std::int32_t shards = way == Way::detour ? group.detours() + 1 : 1;
  const auto ranks = static_cast<std::size_t>(group.size() + group.detours());
  for (std::int32_t source = 0; source < group.size(); ++source) {
    std::vector<std::int64_t> put(ranks);
    for (std::int32_t target = 0; target < group.size(); ++target) {
      if (target == source) continue;
      const Shards chunk{.elements = group.chunk(elements, target).size(), .count = shards};
      for (std::int32_t shard = 0; shard < shards; ++shard) {
        put[group.memory_of(shard, group.member(target)).index()] += chunk.at(shard).size();
      }
    }
    for (std::size_t memory = 0; memory < ranks; ++memory) {
      if (put[memory] > 0) act(group.member(source), Rank{memory}, put[memory]);
    }
  }
}

}  // namespace

Choice choose(Need need, const NeedSize& size) {
  switch (need) {
    case Need::all_to_all: return choose_collective("all_to_all_detour", size);
    case Need::reduce_scatter: return choose_collective("reduce_scatter_detour", size);
    case Need::attention_to_experts: return {"a2e", "whole batches go from attention ranks to expert ranks"};
    case Need::experts_to_attention: return {"e2a", "answers go back from expert ranks to attention ranks"};
    case Need::dispatch: break;
  }
  if (size.tokens <= kDecodeTokens) {
    return {
        "dispatch_low_latency",
        "a decode step: few tokens, so one kernel fetches all counts and sends the rows, with a flag for each rank"};
  }
  return {"dispatch_normal", "prefill: many tokens, so places are agreed on once, and each row is written once"};
}

std::optional<Link> missing_link(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements,
                                 Way way) {
  std::optional<Link> missing;
  each_link(group, elements, way, [&](Rank from, Rank to, std::int64_t /*count*/) {
    if (!missing && !links.exists(from, to)) missing = Link{from, to};
  });
  return missing;
}

double predicted_seconds(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements,
                         Element type, Way way) {
  double slowest = 0;
  each_link(group, elements, way, [&](Rank from, Rank to, std::int64_t count) {
    const Bytes size{static_cast<std::uint64_t>(count * bytes_of_element(type))};
    slowest = std::max(slowest, links.seconds(from, to, size));
  });
  return slowest;
}

double predicted_gain(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements, Element type) {
  const double with = predicted_seconds(links, group, elements, type);
  return with > 0 ? predicted_seconds(links, group, elements, type, Way::direct) / with : 1;
}

}  // namespace shmoe::ops
