#pragma once
// `shmoe bench afd`: a2e and e2a beside sends and receives of MPI.

#include <cstdint>
#include <functional>
#include <optional>

#include "apps/bench/bench_job.hpp"
#include "shmem/layout.hpp"
#include "shmem/signal.hpp"
#include "shmem/types.hpp"

namespace shmoe::apps {

struct AfdPlan {
  std::int64_t tokens = 128;  // of an attention rank
  std::int64_t hidden = 7168;
  std::int32_t topk = 8;
  DType dtype = DType::bf16;
  std::uint64_t seed = 1;
  std::optional<std::int32_t> expert_ranks = {};  // half of the ranks without
  std::int64_t blocks = 40;
};

/// Slots of the job: BenchJob::declare_slots.
void declare_afd_bench(shmem::SlotPlan& plan, const shmem::BlockMap& map);

/// Ours by turns with MPI, which does the same work: batch size, ids, scales and rows to the expert rank, weighted sums
/// back. Every result of every block is compared with the sequential reference.
Result<BenchReport> bench_afd(BenchPlace& place, const AfdPlan& plan);

}  // namespace shmoe::apps
