#pragma once
// The blocks of `shmoe bench ep` as rows and as a table.

#include <string>
#include <vector>

#include "apps/bench/ep_blocks.hpp"
#include "apps/bench/report.hpp"

namespace shmoe::apps {

/// `heading`: what was run where; `alone`: why nothing stands beside ours, if so.
BenchReport ep_report(const EpBlocks& bench, const std::vector<Block>& blocks, const std::string& heading,
                      const std::string& alone);

}  // namespace shmoe::apps
