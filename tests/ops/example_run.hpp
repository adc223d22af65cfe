#pragma once
// Runs the worked example on 2 ranks of 6 cores.

#include <vector>

#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "shmem/result.hpp"

namespace shmoe::test {

struct ExampleRank {
  ops::LayoutTables layout;
  ops::NotifyTables notify;
  std::vector<std::int32_t> num_tokens_per_expert;
  std::vector<std::byte> received;  // total_recv_tokens rows, 0xA5 where nothing was written
  std::vector<std::byte> combined;
};

/// Experts compute y = x * (e + 1), rounded to bf16 in every type: with fp32 rows the combined values are the sums
/// before the last rounding.
Result<std::vector<ExampleRank>> run_example(DType dtype);

}  // namespace shmoe::test
