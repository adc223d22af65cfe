#include "apps/bench/ll_blocks.hpp"

#include <cstring>

#include "apps/bench/mpi_contenders.hpp"
#include "apps/shmoe/collective.hpp"

namespace shmoe::apps {
namespace {

void spoil_results(std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memset(bytes.data(), 0xA5, bytes.size());
}

/// So that what the untimed step has left is no answer, at the price of one cache line a row.
void mark_results(std::span<std::byte> rows, std::size_t row_bytes) {
  for (std::size_t at = 0; at < rows.size(); at += row_bytes) rows[at] = ~rows[at];
}

/// CPU time, so that ranks that share a CPU compute one after the other.
void keep_busy(std::int64_t microseconds) {
  if (microseconds == 0) return;
  const std::int64_t end = cpu_ns() + 1000 * microseconds;
  while (cpu_ns() < end) {
  }
}

}  // namespace

template <class Call>
Result<void> LlBlocks::timed(Lap& lap, const Call& call) {
  keep_busy(plan_.compute_us);
  if (auto together = comm_->barrier(); !together) return together;
  Result<void> done;
  lap = lap_of([&] { done = call(); });
  return done ? comm_->barrier() : done;
}

Result<std::unique_ptr<LlBlocks>> LlBlocks::create(BenchPlace& place, const LlPlan& plan) {
  std::unique_ptr<LlBlocks> blocks{new LlBlocks(place, plan)};
  const Result<void> prepared = blocks->prepare();
  const auto fault = prepared ? std::nullopt : std::optional{prepared.error()};
  if (auto ready = agree(place.world.all(), "preparation", fault); !ready) return std::move(ready).error();
  if (auto ready = blocks->prepare_contenders(); !ready) return std::move(ready).error();
  return blocks;
}

bool LlBlocks::has_least() const { return comm_->ranks() == 2 && place_->world.config().views; }

Result<void> LlBlocks::prepare() {
  const auto record = comm_->allocate(Bytes{sizeof(LlRecord)});
  if (!record) return record.error();
  record_at_ = *record;
  const auto flag = comm_->allocate(Bytes{64});
  if (!flag) return flag.error();
  flag_.emplace(*comm_, *flag);
  auto workload = Workload::create(*comm_, plan_.shape);
  if (!workload) return std::move(workload).error();
  workload_ = *std::move(workload);
  auto ours = LowLatencyOperators::create(*comm_, *workload_);
  if (!ours) return std::move(ours).error();
  ours_ = *std::move(ours);
  if (has_least()) limits_ = std::make_unique<Limits>(*comm_, *workload_, ours_->expand_x(), ours_->expert_out());
  return {};
}

Result<void> LlBlocks::prepare_contenders() {
  StageTimes untimed{};
  if (auto first = ours_->dispatch(untimed); !first) return first;
  workload_->fill_answers(ours_->answers());
  if (!place_->has_mpi()) return {};
  mpi_ = make_mpi_pipeline(*workload_);
  if (auto first = mpi_->dispatch(untimed); !first) return first;
  workload_->fill_answers(mpi_->answers());
  return {};
}

Result<std::vector<LlBlock>> LlBlocks::run() {
  std::vector<LlBlock> blocks;
  for (std::int64_t number = 0; number < plan_.blocks; ++number) {
    auto measured = block(number);
    if (!measured) return std::move(measured).error();
    blocks.push_back(*std::move(measured));
  }
  return blocks;
}

Result<LlBlock> LlBlocks::block(std::int64_t number) {
  LlRecord record;
  for (std::size_t turn = 0; turn < kLlSides; ++turn) {
    const std::size_t side = (turn + static_cast<std::size_t>(number)) % kLlSides;
    Contender* contender = static_cast<LlSide>(side) == LlSide::ours ? ours_.get() : mpi_.get();
    if (contender == nullptr) continue;
    if (auto done = measure(*contender, record.sides[side]); !done) return std::move(done).error();
  }
  if (auto done = measure_least(record); !done) return std::move(done).error();
  return gather(*comm_, record_at_, record);
}

Result<void> LlBlocks::measure(Contender& contender, LlCalls& calls) {
  const std::size_t row = workload_->row_bytes();
  StageTimes untimed{};
  spoil_results(contender.received());
  spoil_results(contender.combined());
  if (auto together = comm_->barrier(); !together) return together;
  if (auto sent = contender.dispatch(untimed); !sent) return sent;
  if (auto summed = contender.combine(untimed); !summed) return summed;
  mark_results(contender.received(), row);
  mark_results(contender.combined(), row);
  if (auto sent = timed(calls.dispatch, [&] { return contender.dispatch(untimed); }); !sent) return sent;
  if (!workload_->are_received(contender.received(), {})) calls.right = 0;
  if (auto summed = timed(calls.combine, [&] { return contender.combine(untimed); }); !summed) return summed;
  if (!workload_->are_combined(contender.combined())) calls.right = 0;
  return {};
}

Result<void> LlBlocks::measure_least(LlRecord& record) {
  if (!has_least()) return {};
  const auto flags = [&] {
    flag_->run(kFlagRounds);
    return Result<void>{};
  };
  if (auto done = timed(record.flags, flags); !done) return done;
  // What lies in the caches is what a call of ours finds there: see measure().
  static_assert(kCopyKinds.size() >= kReadKinds.size());
  for (std::size_t kind = 0; kind < kCopyKinds.size(); ++kind) {
    const std::size_t reading = kind % kReadKinds.size();
    const auto copy = [&] { return limits_->copy(kCopyKinds[kind]); };
    const auto read = [&] { return limits_->read_answers(kReadKinds[reading]); };
    if (auto warmed = copy(); !warmed) return warmed;
    if (auto warmed = read(); !warmed) return warmed;
    if (auto done = timed(record.copies[kind], copy); !done) return done;
    (void)workload_->are_received(ours_->received(), {});
    if (auto done = timed(record.reads[reading], read); !done) return done;
  }
  return {};
}

}  // namespace shmoe::apps
