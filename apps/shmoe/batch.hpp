#pragma once
// What one rank works on in one step.

#include <cstdint>
#include <vector>

namespace shmoe::apps {

/// Shapes:  topk_ids [T, K], -1 drops a pair · weights [T, K], or none: every weight is 1
struct Batch {
  std::int64_t tokens = 0;
  std::int32_t topk = 1;
  std::vector<std::int64_t> topk_ids;
  std::vector<float> weights;
};

}  // namespace shmoe::apps
