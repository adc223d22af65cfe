#pragma once
// Measures dispatch and combine for few tokens by turns with the MPI pipeline and with the least that two ranks can do.
//
//   block    for ours and MPI, by turns:
//              spoil the results; one step untimed; mark every row
//              compute; barrier; dispatch; barrier                 --> compare with the reference
//              compute; barrier; combine; barrier                  --> compare with the reference
//            and the least: flags there and back, bare copies, bare reads

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "apps/bench/bench_job.hpp"
#include "apps/bench/flag_round_trip.hpp"
#include "apps/bench/limits.hpp"
#include "apps/bench/low_latency_operators.hpp"
#include "apps/bench/workload.hpp"

namespace shmoe::apps {

struct LlPlan {
  EpShape shape;
  std::int64_t blocks = 400;
  std::int64_t compute_us = 0;  // that each rank keeps its CPU busy before each call
};

enum class LlSide : std::uint8_t { ours, mpi };
inline constexpr std::size_t kLlSides = 2;

/// One side in one block on one rank. Plain, like what follows.
struct LlCalls {
  Lap dispatch;
  Lap combine;
  std::int64_t right = 1;  // 0: a result was not what the reference says
};

struct LlRecord {
  std::array<LlCalls, kLlSides> sides{};
  Lap flags;  // of kFlagRounds
  std::array<Lap, kCopyKinds.size()> copies{};
  std::array<Lap, kReadKinds.size()> reads{};
};
inline constexpr std::int64_t kFlagRounds = 100;

/// By rank.
using LlBlock = std::vector<LlRecord>;

class LlBlocks {
 public:
  /// Collective.
  ///
  /// Errors:  as Communicator::allocate, and what the operators refuse; the same on every rank
  static Result<std::unique_ptr<LlBlocks>> create(BenchPlace& place, const LlPlan& plan);

  /// Collective; on every rank the same.
  Result<std::vector<LlBlock>> run();

  /// Of two ranks whose memory is reached in place.
  [[nodiscard]] bool has_least() const;
  [[nodiscard]] const Workload& workload() const { return *workload_; }

 private:
  LlBlocks(BenchPlace& place, const LlPlan& plan) : place_(&place), comm_(&place.world.all()), plan_(plan) {}
  Result<void> prepare();
  Result<void> prepare_contenders();
  Result<LlBlock> block(std::int64_t number);
  Result<void> measure(Contender& contender, LlCalls& calls);
  Result<void> measure_least(LlRecord& record);
  /// A call that may fail, between two barriers.
  template <class Call>
  Result<void> timed(Lap& lap, const Call& call);

  BenchPlace* place_;
  runtime::Communicator* comm_;
  LlPlan plan_;
  Offset record_at_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<LowLatencyOperators> ours_;
  std::unique_ptr<Contender> mpi_;
  std::optional<FlagRoundTrip> flag_;
  std::unique_ptr<Limits> limits_;
};

}  // namespace shmoe::apps
