#pragma once
// Measures contenders and limits by turns, block after block, in one job.
//
//   block    for each contender, in an order that moves on by one with every block:
//              spoil its results; warm: do it once and mark every row (cold: sweep the caches)
//              barrier; dispatch; read what was received           --> compare with the reference
//              warm or cold; barrier; combine                      --> compare with the reference
//            and the limits likewise
//
// A time is wall time from the first rank's start to the last rank's end, of one call.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "apps/bench/cache_sweep.hpp"
#include "apps/bench/contender.hpp"
#include "apps/bench/limits.hpp"
#include "apps/bench/our_operators.hpp"
#include "apps/bench/workload.hpp"
#include "runtime/world.hpp"

namespace shmoe::apps {

struct EpPlan {
  EpShape shape;
  std::int64_t blocks = 40;
  bool cold = false;
};

inline constexpr std::size_t kMaxContenders = 4;

/// One contender in one block on one rank. Plain, like all that follows.
struct Measured {
  Lap dispatch;
  Lap first_read;
  Lap combine;
  StageTimes stages{};
  std::int64_t right = 1;  // 0: a result was not what the reference says
};

/// One block on one rank.
struct BlockRecord {
  std::array<Measured, kMaxContenders> contenders{};
  std::array<Lap, kCopyKinds.size()> copies{};
  std::array<Lap, kCopyKinds.size()> reads_of_copies{};
  std::array<Lap, kReadKinds.size()> reads{};
  Lap copy_within;
};

/// By rank.
using Block = std::vector<BlockRecord>;

class EpBlocks {
 public:
  /// Collective. `with_limits`: rows of peers can be reached in place.
  ///
  /// Errors:  as Communicator::allocate, and what the operators refuse
  static Result<std::unique_ptr<EpBlocks>> create(runtime::Communicator& comm, const EpPlan& plan, bool with_limits);

  /// Adds what ours is compared with; it has to exist until run() returns.
  void add(Contender& contender) { contenders_.push_back(&contender); }

  [[nodiscard]] const Workload& workload() const { return *workload_; }
  [[nodiscard]] std::span<Contender* const> contenders() const { return contenders_; }
  [[nodiscard]] bool with_limits() const { return with_limits_; }

  /// The copy with which rows are there and read soonest, found in a few blocks; the same on every rank.
  Result<CopyKind> fastest_copy();
  /// What comes before the first block: every contender once, and the answers of the experts.
  Result<void> prepare_contenders();
  /// Collective; on every rank the same.
  Result<Block> block(std::int64_t number);
  /// All of them.
  Result<std::vector<Block>> run();

 private:
  EpBlocks(runtime::Communicator& comm, const EpPlan& plan, bool with_limits);
  Result<void> prepare();
  Result<void> measure(Contender& contender, Measured& measured);
  Result<void> measure_dispatch(Contender& contender, Measured& measured);
  Result<void> measure_combine(Contender& contender, Measured& measured);
  Result<void> measure_limits(BlockRecord& record);
  Result<void> measure_copies(BlockRecord& record);
  /// Notes the lap of a call that may fail, and waits for all.
  template <class Call>
  Result<void> timed(Lap& lap, const Call& call);
  /// Warm: once through the call itself, and its results marked as none; cold: through other memory. Then all ranks
  /// together.
  Result<void> get_ready(const std::function<Result<void>()>& call, std::span<std::byte> results = {},
                         std::size_t row_bytes = 1);

  runtime::Communicator* comm_;
  EpPlan plan_;
  bool with_limits_;
  Offset record_at_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<OurOperators> ours_;
  std::unique_ptr<Limits> limits_;
  CacheSweep sweep_;
  std::vector<Contender*> contenders_;
};

}  // namespace shmoe::apps
