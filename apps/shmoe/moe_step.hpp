#pragma once
// One step of the main job on one rank: layout -> notify -> dispatch -> experts -> combine, timed, then checked.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "apps/shmoe/batch.hpp"
#include "apps/shmoe/model.hpp"
#include "apps/shmoe/routing_source.hpp"
#include "ops/ep/expert_map.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/notify.hpp"
#include "ops/ep/pipeline.hpp"
#include "ops/ep/routing.hpp"
#include "runtime/communicator.hpp"

namespace shmoe::apps {

enum class Stage : std::uint8_t { layout, notify, dispatch, experts, combine };
inline constexpr std::array<const char*, 5> kStageNames{"layout", "notify", "dispatch", "experts", "combine"};
inline constexpr std::size_t kStages = kStageNames.size();  // of any mode at most

/// Inputs, tables and outputs of a step.
struct MoeStep {
  std::int64_t number = 0;
  Rank rank;
  ops::Routing routing;
  std::vector<std::byte> x;  // [T, H]
  ops::LayoutTables layout;
  ops::NotifyTables notify;
  std::vector<std::byte> combined;  // [T, H]
  std::array<std::chrono::nanoseconds, kStages> times{};
};

class MoePipeline {
 public:
  MoePipeline(runtime::Communicator& comm, const MoeShape& shape, const ops::ExpertMap& experts,
              ops::EpBuffers& buffers)
      : comm_(comm),
        shape_(shape),
        experts_(experts),
        buffers_(buffers),
        executor_(runtime::make_parallel_executor(comm.cores())) {}

  /// Order:   the rows of this step stay in the buffers until the next call
  /// Errors:  the same on every rank; or one rank's, which then ends the job
  Result<MoeStep> run(const Batch& batch, std::int64_t number);

 private:
  Result<void> make_room(const ops::NotifyTables& notify);
  void compute(const MoeStep& step);

  runtime::Communicator& comm_;
  const MoeShape& shape_;
  const ops::ExpertMap& experts_;
  ops::EpBuffers& buffers_;
  std::unique_ptr<runtime::Executor> executor_;
};

}  // namespace shmoe::apps
