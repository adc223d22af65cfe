#pragma once
// One step of the main job where attention and experts have ranks of their own: attention -> a2e -> experts -> e2a, timed.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/shmoe/batch.hpp"
#include "apps/shmoe/model.hpp"
#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "runtime/communicator.hpp"

namespace shmoe::apps {

enum class AfdStage : std::uint8_t { attention, a2e, experts, e2a };
inline constexpr std::array<const char*, 4> kAfdStageNames{"attention", "a2e", "experts", "e2a"};

/// Inputs, tables and outputs of a step.
struct AfdStep {
  std::int64_t number = 0;
  Rank rank;
  // Of an attention rank.
  std::vector<std::byte> x;  // [B, H]
  std::vector<std::int32_t> ids;
  std::vector<float> scales;
  std::vector<std::byte> returned;  // [B, H]
  /// Rows of every batch where the published a2e takes no others; 0: each has its own. Those behind the own ones are zeros
  /// with ids of -1.
  std::int64_t padded = 0;
  // Of an expert rank.
  std::vector<std::byte> expand_x;
  std::vector<std::byte> answers;  // [rows, K, H]; as published, where e2a adds nothing up, [rows, H]
  ops::A2eTables tables;
  std::array<std::chrono::nanoseconds, kAfdStageNames.size()> times{};
};

/// What both operators take.
ops::AfdShape afd_shape(const MoeShape& shape, const ops::Assignment& ranks, std::int32_t topk);
/// Of a batch without weights each is 1.
std::vector<float> scales_of(const Batch& batch);

class AfdPipeline {
 public:
  AfdPipeline(runtime::Communicator& comm, const MoeShape& shape, const ops::Assignment& ranks, std::int32_t topk)
      : comm_(comm),
        shape_(afd_shape(shape, ranks, topk)),
        payload_(shape),
        signals_(ops::afd_signals(comm.slots())),
        executor_(runtime::make_parallel_executor(comm.cores())) {}

  /// `most`: rows of the largest batch of the step. `batch`: this rank's; an expert rank has none.
  ///
  /// Errors:  the same on every rank; or one rank's, which then ends the job
  Result<AfdStep> run(const Batch& batch, std::int64_t most, std::int64_t number);

 private:
  Result<void> make_room(std::int64_t most);
  void fill(AfdStep& step, const Batch& batch) const;
  void compute(AfdStep& step);
  void answer(const AfdStep& step, std::size_t row, std::span<const std::byte> x, std::span<std::byte> answers) const;
  void add_up(const AfdStep& step, std::size_t row, std::span<const std::byte> answers, std::span<std::byte> sum) const;
  [[nodiscard]] bool published() const { return !comm_.profile().handshake; }
  [[nodiscard]] bool is_expert() const { return shape_.ranks.is_expert(comm_.rank()); }

  runtime::Communicator& comm_;
  ops::AfdShape shape_;  // max_batch 0: there is no window yet
  const MoeShape& payload_;
  ops::AfdSignals signals_;
  Offset window_;
  std::unique_ptr<runtime::Executor> executor_;
};

}  // namespace shmoe::apps
