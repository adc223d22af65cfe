#include "ops/detour/choose.hpp"

#include <algorithm>

namespace shmoe::ops {
namespace {

Choice choose_collective(std::string_view detour, const NeedSize& size) {
  if (size.communicating >= size.ranks) {
    return {detour, "with the group of all ranks: nobody is left whose memory could be a further way"};
  }
  if (size.bytes >= kDetourLimit) {
    return {detour, "on a communicator of the communicating ranks alone: from 1 MB on the tree takes the direct way"};
  }
  return {detour, "with the group of the communicating ranks: less than 1 MB, and the others lend their memory"};
}

/// Bytes that one rank puts into the memory of another, by shards of `shards` ways.
std::int64_t bytes_on_link(const DetourGroup& group, std::int32_t source, Rank memory, std::int64_t elements,
                           std::int32_t ways) {
  std::int64_t sum = 0;
  for (std::int32_t target = 0; target < group.size(); ++target) {
    if (target == source) continue;
    const Shards shards{.elements = group.chunk(elements, target).size(), .count = ways};
    for (std::int32_t shard = 0; shard < ways; ++shard) {
      if (group.memory_of(shard, group.member(target)) == memory) sum += shards.at(shard).size();
    }
  }
  return sum;
}

double slowest_link(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements, Element type,
                    std::int32_t ways) {
  double slowest = 0;
  for (std::int32_t source = 0; source < group.size(); ++source) {
    for (Rank memory{0}; memory.value() < links.ranks(); ++memory) {
      const std::int64_t count = bytes_on_link(group, source, memory, elements, ways);
      if (count == 0) continue;
      const Bytes size{static_cast<std::uint64_t>(count * bytes_of_element(type))};
      slowest = std::max(slowest, links.seconds(group.member(source), memory, size));
    }
  }
  return slowest;
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
        "low latency",
        "a decode step: few tokens, so one kernel fetches all counts and sends the rows, with a flag for each rank"};
  }
  return {"normal", "prefill: many tokens, so places are agreed on once, and each row is written once"};
}

double predicted_seconds(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements,
                         Element type) {
  return slowest_link(links, group, elements, type, group.detours() + 1);
}

double predicted_gain(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements, Element type) {
  const double with = predicted_seconds(links, group, elements, type);
  return with > 0 ? slowest_link(links, group, elements, type, 1) / with : 1;
}

}  // namespace shmoe::ops
