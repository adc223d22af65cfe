#pragma once
// Which operator for which need: the published decision tree, and what a detour is worth on given links.
//
//   a collective among C of N ranks
//     C < N   and less than 1 MB   -> all_to_all_detour, reduce_scatter_detour
//     else                         -> the same among all ranks, without a detour
//   between attention and experts  -> a2e there, e2a back
//   tokens to their experts        -> normal for many tokens (prefill), low latency for few (decode)
//
// Source: decision tree of the published guide; its standard collective is here the same operator on all ranks. The bound
//         of tokens is ours: the guide only says prefill and decode.

#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/detour/shards.hpp"
#include "runtime/link_speeds.hpp"

namespace shmoe::ops {

/// What is to be done.
enum class Need : std::uint8_t { all_to_all, reduce_scatter, attention_to_experts, experts_to_attention, dispatch };

struct NeedSize {
  std::int32_t ranks = 1;          // N
  std::int32_t communicating = 1;  // C
  std::int64_t bytes = 0;          // of a rank's input
  std::int64_t tokens = 0;         // of a rank
};

/// How a collective gets from rank to rank; the other needs have one way.
enum class Way : std::uint8_t { direct, detour };

struct Choice {
  std::string_view op;
  std::string_view why;
  Way way = Way::direct;
};

/// A megabyte as the tree has it.
inline constexpr std::int64_t kDetourLimit = 1'000'000;
/// Up to here tokens count as those of a decode step.
inline constexpr std::int64_t kDecodeTokens = 128;

Choice choose(Need need, const NeedSize& size);

struct Link {
  Rank from;
  Rank to;
};
/// The first link that an exchange needs and that does not exist. A detour needs the direct ones too, for shard 0.
/// Shapes:  links of as many ranks as the group was made of
std::optional<Link> missing_link(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements,
                                 Way way);

/// How long the slowest link carries what an exchange puts on it: with shards for `group` and its lenders, or without.
/// Shapes:  as missing_link
/// Units:   seconds
/// Errors:  a broken contract where missing_link finds one
double predicted_seconds(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements,
                         Element type, Way way = Way::detour);

/// Of a detour over the direct way between the same ranks.
/// Errors:  as predicted_seconds; 1 where no link has a limit
double predicted_gain(const runtime::LinkSpeeds& links, const DetourGroup& group, std::int64_t elements, Element type);

}  // namespace shmoe::ops
