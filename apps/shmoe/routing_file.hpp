#pragma once
// Recorded routing, one batch of tokens a line, in either of two formats:
//
//   id <tab> id ... <tab><tab> weight <tab> weight ...           token t owns fields K*t .. K*t+K-1 of both parts
//   {"topk_ids": [[3, 7], [1, 3]], "topk_weights": [[0.6, 0.4], [0.9, 0.1]]}      weights may be left out
//
// Empty lines may stand at the end. -1 as an id of the second format drops the pair.
// Source of the first: expert weights published with ESFT (top 6 of 64 experts of DeepSeek-V2-Lite).

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "apps/shmoe/batch.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {

struct RoutingRules {
  std::int32_t topk = 6;  // of tab-separated lines, and of JSON where `topk_given`
  bool topk_given = false;
  std::int32_t experts = 64;  // ids lie below
};

struct RoutingFile {
  std::string path;
  std::int32_t topk = 0;
  std::vector<Batch> batches;  // at least one
};

/// Errors:  not_found; invalid_argument naming file, line and field
Result<RoutingFile> read_routing_file(const std::string& path, const RoutingRules& rules);
Result<RoutingFile> read_routing(std::istream& in, const std::string& path, const RoutingRules& rules);

}  // namespace shmoe::apps
