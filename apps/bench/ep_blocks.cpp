#include "apps/bench/ep_blocks.hpp"

#include <cstring>

#include "apps/bench/ep_figures.hpp"
#include "apps/shmoe/collective.hpp"

namespace shmoe::apps {
namespace {

constexpr int kSpoiled = 0xA5;
/// Blocks in which the fastest copy is looked for.
constexpr std::int64_t kTrials = 5;

void spoil(std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memset(bytes.data(), kSpoiled, bytes.size());
}

/// So that what a warming call has left is no answer, at the price of one cache line a row.
void mark(std::span<std::byte> rows, std::size_t row_bytes) {
  for (std::size_t at = 0; at < rows.size(); at += row_bytes) rows[at] = ~rows[at];
}

}  // namespace

/// With more ranks than CPUs whoever is done first would take the CPU from the others with what it does next.
template <class Call>
Result<void> EpBlocks::timed(Lap& lap, const Call& call) {
  Result<void> done;
  lap = lap_of([&] { done = call(); });
  return done ? comm_->barrier() : done;
}

Result<std::unique_ptr<EpBlocks>> EpBlocks::create(runtime::Communicator& comm, const EpPlan& plan, bool with_limits) {
  std::unique_ptr<EpBlocks> blocks{new EpBlocks(comm, plan, with_limits)};
  const Result<void> prepared = blocks->prepare();
  const auto fault = prepared ? std::nullopt : std::optional{prepared.error()};
  if (auto ready = agree(comm, "preparation", fault); !ready) return std::move(ready).error();
  StageTimes untimed{};
  if (auto first = blocks->ours_->dispatch(untimed); !first) return std::move(first).error();
  blocks->limits_ =
      std::make_unique<Limits>(comm, *blocks->workload_, blocks->ours_->recv_x(), blocks->ours_->expert_out());
  return blocks;
}

EpBlocks::EpBlocks(runtime::Communicator& comm, const EpPlan& plan, bool with_limits)
    : comm_(&comm), plan_(plan), with_limits_(with_limits), sweep_(comm.ranks()) {}

Result<void> EpBlocks::prepare() {
  auto record = comm_->allocate(Bytes{sizeof(BlockRecord)});
  if (!record) return std::move(record).error();
  record_at_ = *record;
  auto workload = Workload::create(*comm_, plan_.shape);
  if (!workload) return std::move(workload).error();
  workload_ = *std::move(workload);
  auto ours = OurOperators::create(*comm_, *workload_);
  if (!ours) return std::move(ours).error();
  ours_ = *std::move(ours);
  contenders_.push_back(ours_.get());
  return {};
}

Result<void> EpBlocks::prepare_contenders() {
  StageTimes untimed{};
  for (Contender* contender : contenders_) {
    if (auto first = contender->dispatch(untimed); !first) return first;
    workload_->fill_answers(contender->answers());
  }
  return {};
}

Result<std::vector<Block>> EpBlocks::run() {
  if (auto ready = prepare_contenders(); !ready) return std::move(ready).error();
  std::vector<Block> blocks;
  for (std::int64_t number = 0; number < plan_.blocks; ++number) {
    auto measured = block(number);
    if (!measured) return std::move(measured).error();
    blocks.push_back(*std::move(measured));
  }
  return blocks;
}

Result<Block> EpBlocks::block(std::int64_t number) {
  BlockRecord record;
  const std::size_t turns = contenders_.size() + 1;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const std::size_t who = (turn + static_cast<std::size_t>(number)) % turns;
    auto done = who < contenders_.size() ? measure(*contenders_[who], record.contenders[who]) : measure_limits(record);
    if (!done) return std::move(done).error();
  }
  return gather(*comm_, record_at_, record);
}

Result<void> EpBlocks::get_ready(const std::function<Result<void>()>& call, std::span<std::byte> results,
                                 std::size_t row_bytes) {
  if (plan_.cold) {
    sweep_.run();
  } else {
    if (auto together = comm_->barrier(); !together) return together;
    if (auto warmed = call(); !warmed) return warmed;
    mark(results, row_bytes);
  }
  return comm_->barrier();
}

Result<void> EpBlocks::measure(Contender& contender, Measured& measured) {
  if (auto done = measure_dispatch(contender, measured); !done) return done;
  return measure_combine(contender, measured);
}

Result<void> EpBlocks::measure_dispatch(Contender& contender, Measured& measured) {
  spoil(contender.received());
  StageTimes untimed{};
  auto ready = get_ready(
      [&] {
        auto sent = contender.dispatch(untimed);
        return sent ? limits_->read_received(contender.received()) : sent;
      },
      contender.received(), ops::row_bytes(plan_.shape.dtype, plan_.shape.hidden, plan_.shape.quant));
  if (!ready) return ready;
  if (auto sent = timed(measured.dispatch, [&] { return contender.dispatch(measured.stages); }); !sent) return sent;
  auto read = timed(measured.first_read, [&] { return limits_->read_received(contender.received()); });
  if (!workload_->are_received(contender.received(), contender.scales())) measured.right = 0;
  return read;
}

Result<void> EpBlocks::measure_combine(Contender& contender, Measured& measured) {
  spoil(contender.combined());
  StageTimes untimed{};
  const auto warm = [&] { return contender.combine(untimed); };
  if (auto ready = get_ready(warm, contender.combined(), workload_->row_bytes()); !ready) return ready;
  auto summed = timed(measured.combine, [&] { return contender.combine(measured.stages); });
  if (!workload_->are_combined(contender.combined())) measured.right = 0;
  return summed;
}

Result<void> EpBlocks::measure_copies(BlockRecord& record) {
  for (std::size_t kind = 0; kind < kCopyKinds.size(); ++kind) {
    const auto copy = [&] { return limits_->copy(kCopyKinds[kind]); };
    const auto read = [&] { return limits_->read_received(ours_->received()); };
    auto ready = get_ready([&] {
      auto copied = copy();
      if (copied) copied = comm_->barrier();
      return copied ? read() : copied;
    });
    if (!ready) return ready;
    if (auto copied = timed(record.copies[kind], copy); !copied) return copied;
    if (auto done = timed(record.reads_of_copies[kind], read); !done) return done;
  }
  return {};
}

Result<void> EpBlocks::measure_limits(BlockRecord& record) {
  if (!with_limits_) return {};
  if (auto copied = measure_copies(record); !copied) return copied;
  for (std::size_t kind = 0; kind < kReadKinds.size(); ++kind) {
    const auto read = [&] { return limits_->read_answers(kReadKinds[kind]); };
    if (auto ready = get_ready(read); !ready) return ready;
    if (auto done = timed(record.reads[kind], read); !done) return done;
  }
  const auto copy = [&] {
    limits_->copy_within();
    return Result<void>{};
  };
  if (auto ready = get_ready(copy); !ready) return ready;
  return timed(record.copy_within, copy);
}

Result<CopyKind> EpBlocks::fastest_copy() {
  std::vector<Block> blocks;
  for (std::int64_t trial = 0; trial < kTrials && with_limits_; ++trial) {
    BlockRecord record;
    if (auto done = measure_copies(record); !done) return std::move(done).error();
    auto gathered = gather(*comm_, record_at_, record);
    if (!gathered) return std::move(gathered).error();
    blocks.push_back(*std::move(gathered));
  }
  if (blocks.empty()) return CopyKind::memcpy;
  return fastest_copied_and_read(blocks);
}

}  // namespace shmoe::apps
