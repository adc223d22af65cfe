#pragma once
// Runs the worked example on 2 ranks of 6 cores.

#include <vector>

#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/low_latency/tables.hpp"
#include "shmem/profile.hpp"
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

/// The same of the low-latency path, in bf16.
struct LowLatencyExampleRank {
  ops::LowLatencyTables tables;
  std::vector<std::byte> received;  // recv_rows rows
  std::vector<std::byte> combined;
};
Result<std::vector<LowLatencyExampleRank>> run_low_latency_example(const Profile& profile, ops::GroupList nums);

/// Of each of a rank's six pairs, as the specification has it: where the rows of this rank begin among those of the
/// pair's expert.
std::vector<std::int64_t> low_latency_bases(const ops::LowLatencyTables& tables, Rank me);

}  // namespace shmoe::test
