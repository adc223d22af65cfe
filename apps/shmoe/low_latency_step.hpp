#pragma once
// One step of the main job for few tokens: dispatch_low_latency -> experts -> combine_low_latency, timed.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/shmoe/batch.hpp"
#include "apps/shmoe/model.hpp"
#include "ops/low_latency/buffers.hpp"
#include "runtime/communicator.hpp"

namespace shmoe::apps {

enum class LowLatencyPart : std::uint8_t { dispatch, experts, combine };
inline constexpr std::array<const char*, 3> kLowLatencyPartNames{"dispatch", "experts", "combine"};

/// Inputs and outputs of a step.
struct LowLatencyStep {
  std::int64_t number = 0;
  Rank rank;
  ops::Routing routing;
  std::vector<std::byte> x;                       // [T, H]
  const ops::LowLatencyTables* tables = nullptr;  // of the pipeline
  std::span<const std::byte> received;            // in the buffers
  std::span<const float> scales;                  // likewise, of int8 rows
  std::vector<std::byte> combined;                // [T, H]
  std::array<std::chrono::nanoseconds, kLowLatencyPartNames.size()> times{};
};

class LowLatencyPipeline {
 public:
  /// `meeting`: of the same ranks, for barriers.
  LowLatencyPipeline(runtime::Communicator& comm, runtime::Communicator& meeting, const MoeShape& shape,
                     const ops::ExpertMap& experts)
      : comm_(comm),
        meeting_(meeting),
        shape_(shape),
        experts_(experts),
        executor_(runtime::make_parallel_executor(comm.cores())) {}

  /// `most`: tokens of the largest batch of the step. `batch`: this rank's.
  ///
  /// Order:   the tables and rows of this step stay until the next call; the step before has ended on every rank
  /// Errors:  the same on every rank; or one rank's, which then ends the job
  Result<LowLatencyStep> run(const Batch& batch, std::int64_t most, std::int64_t number);

 private:
  Result<void> make_room(std::int32_t topk, std::int64_t most);
  Result<void> replace_buffers(std::int64_t rows);
  void compute(const ops::LowLatencyBuffers::Half& half);

  runtime::Communicator& comm_;
  runtime::Communicator& meeting_;
  const MoeShape& shape_;
  const ops::ExpertMap& experts_;
  std::optional<ops::LowLatencyBuffers> buffers_;
  ops::LowLatencyTables tables_;
  std::unique_ptr<runtime::Executor> executor_;
};

}  // namespace shmoe::apps
