#include "apps/bench/afd_bench.hpp"

#include <algorithm>
#include <array>

#include "apps/bench/mpi_afd.hpp"
#include "apps/bench/row_buffer.hpp"
#include "apps/bench/samples.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/payload.hpp"
#include "apps/shmoe/say.hpp"
#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "ops/afd/reference.hpp"
#include "shmem/copy.hpp"

namespace shmoe::apps {
namespace {

using ops::reference::AfdProblem;
using ops::reference::AfdReceived;

enum class AfdSide : std::uint8_t { ours, mpi };
constexpr std::size_t kAfdSides = 2;

/// One block on one rank.
struct AfdRecord {
  std::array<Lap, kAfdSides> a2e{};
  std::array<Lap, kAfdSides> e2a{};
  std::int64_t right = 1;
};
using AfdBlock = std::vector<AfdRecord>;

/// The same batches on every rank, so that each rank can check what it receives.
AfdProblem drawn_problem(const AfdPlan& plan, const ops::Assignment& ranks, Rank only) {
  AfdProblem problem{
      .experts = ranks.experts(), .hidden = plan.hidden, .topk = plan.topk, .dtype = plan.dtype, .attention = {}};
  const std::size_t row = ops::row_bytes(plan.dtype, plan.hidden);
  for (Rank rank{ranks.experts()}; rank < Rank{ranks.ranks()}; ++rank) {
    auto& batch = problem.attention.emplace_back();
    const bool mine = rank == only || (ranks.is_expert(only) && ranks.expert_of(rank) == only);
    if (!mine) continue;
    batch.x.resize(row * static_cast<std::size_t>(plan.tokens));
    for (std::int64_t token = 0; token < plan.tokens; ++token) {
      fill_token({plan.seed, 0, rank, token}, plan.dtype,
                 std::span{batch.x}.subspan(row * static_cast<std::size_t>(token), row));
    }
    for (std::int64_t pair = 0; pair < plan.tokens * plan.topk; ++pair) {
      batch.expert_ids.push_back(static_cast<std::int32_t>((pair * 7 + rank.value()) % 256));
      batch.scales.push_back(static_cast<float>(1 + pair % 8) / 8);
    }
  }
  return problem;
}

/// What an expert rank answers to each pair of the batches it serves; an attention rank knows those to its own.
std::vector<std::byte> drawn_answers(const AfdPlan& plan, const ops::Assignment& ranks, Rank expert, Rank only) {
  const std::size_t row = ops::row_bytes(plan.dtype, plan.hidden);
  const auto pairs = static_cast<std::size_t>(plan.tokens * plan.topk);
  std::vector<std::byte> answers;
  for (std::int32_t index = 0; index < ranks.served(expert); ++index) {
    const Rank from = ranks.attention_rank(expert, index);
    if (only != expert && only != from) continue;
    const std::size_t first = answers.size();
    answers.resize(first + pairs * row);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      fill_token({plan.seed + 1, 0, from, static_cast<std::int64_t>(pair)}, plan.dtype,
                 std::span{answers}.subspan(first + pair * row, row));
    }
  }
  return answers;
}

class AfdBench {
 public:
  AfdBench(BenchPlace& place, const AfdPlan& plan, const ops::Assignment& ranks, Offset window, Offset record)
      : place_(place),
        comm_(place.world.all()),
        plan_(plan),
        ranks_(ranks),
        record_at_(record),
        shape_{.ranks = ranks,
               .max_batch = std::max<std::int64_t>(plan.tokens, 1),
               .hidden = plan.hidden,
               .topk = plan.topk,
               .dtype = plan.dtype},
        signals_(ops::afd_signals(comm_.slots())),
        afd_{.shape = shape_, .window = window, .signals = signals_},
        expert_(ranks.is_expert(comm_.rank())) {
    const AfdProblem problem = drawn_problem(plan, ranks, comm_.rank());
    if (expert_) {
      expected_ = ops::reference::received(problem)[comm_.rank().index()];
      answers_ = drawn_answers(plan, ranks, comm_.rank(), comm_.rank());
      rows_ = RowBuffer{static_cast<std::size_t>(shape_.capacity(comm_.rank())) * shape_.row_bytes()};
      sums_ = RowBuffer{expected_.x_active_mask.size() * shape_.row_bytes()};
      ids_.resize(expected_.expert_ids.size());
      scales_.resize(expected_.expert_scales.size());
      return;
    }
    const std::size_t index = comm_.rank().index() - static_cast<std::size_t>(ranks.experts());
    own_ = problem.attention[index];
    AfdProblem mine = problem;
    mine.experts = 1;
    mine.attention = {own_};
    returned_ =
        ops::reference::returned(mine, {drawn_answers(plan, ranks, ranks.expert_of(comm_.rank()), comm_.rank())}, true)
            .front();
    x_ = RowBuffer{returned_.size()};
  }

  Result<AfdBlock> block(std::int64_t number) {
    AfdRecord record;
    for (std::size_t turn = 0; turn < sides(); ++turn) {
      const std::size_t side = (turn + static_cast<std::size_t>(number)) % sides();
      if (auto done = measure(static_cast<AfdSide>(side), record); !done) return std::move(done).error();
    }
    return gather(comm_, record_at_, record);
  }

  [[nodiscard]] std::size_t sides() const { return place_.has_mpi() ? kAfdSides : 1; }
  [[nodiscard]] const ops::AfdShape& shape() const { return shape_; }

 private:
  Result<void> measure(AfdSide side, AfdRecord& record) {
    const auto at = static_cast<std::size_t>(side);
    std::ranges::fill(rows_.bytes(), std::byte{0xFF});
    std::ranges::fill(x_.bytes(), std::byte{0xFF});
    Result<void> done = timed_lap(record.a2e[at], [&] { return side == AfdSide::ours ? bring() : mpi_bring(); });
    if (!done) return done;
    if (expert_ && !right_batches()) record.right = 0;
    done = timed_lap(record.e2a[at], [&] { return side == AfdSide::ours ? give_back() : mpi_give_back(); });
    if (!done) return done;
    if (!expert_ && !std::ranges::equal(x_.bytes(), returned_)) record.right = 0;
    return {};
  }

  template <class Call>
  Result<void> timed_lap(Lap& lap, const Call& call) {
    if (auto together = comm_.barrier(); !together) return together;
    Result<void> done;
    lap = lap_of([&] { done = call(); });
    if (!done) return done;
    return comm_.barrier();
  }

  Result<void> bring() {
    ops::A2eArgs args{.place = afd_};
    if (expert_) {
      args.expand_x = rows_.bytes();
    } else {
      args.x = own_.x;
      args.expert_ids = own_.expert_ids;
      args.scales = own_.scales;
    }
    return ops::a2e(comm_, args, tables_);
  }
  Result<void> give_back() {
    ops::E2aArgs args{.place = afd_, .a2e = tables_, .kind = ops::Answers::one_each_k};
    if (expert_) {
      args.answers = answers_;
    } else {
      args.x = x_.bytes();
    }
    return ops::e2a(comm_, args);
  }

  Result<void> mpi_bring() {
    if (!expert_) {
      mpi_send_batch(mpi_sizes(), own_.x, own_.expert_ids, own_.scales);
      return {};
    }
    tables_.atten_batch_size = mpi_receive_batches(mpi_sizes(), rows_.bytes(), ids_, scales_);
    tables_.expert_ids = ids_;
    tables_.expert_scales = scales_;
    return {};
  }
  Result<void> mpi_give_back() {
    if (!expert_) {
      mpi_receive_sums(mpi_sizes(), x_.bytes());
      return {};
    }
    const auto topk = static_cast<std::size_t>(plan_.topk);
    const std::size_t row = shape_.row_bytes();
    std::vector<std::span<const std::byte>> terms(topk);
    for (std::size_t i = 0; i < expected_.x_active_mask.size(); ++i) {
      for (std::size_t k = 0; k < topk; ++k) terms[k] = std::span{answers_}.subspan((i * topk + k) * row, row);
      shmem::weighted_row_sum(plan_.dtype, terms, std::span{scales_}.subspan(i * topk, topk),
                              sums_.bytes(i * row, row));
    }
    mpi_send_sums(mpi_sizes(), tables_.atten_batch_size, sums_.bytes());
    return {};
  }
  [[nodiscard]] MpiAfdSizes mpi_sizes() const {
    return {.ranks = ranks_,
            .me = comm_.rank(),
            .row_bytes = shape_.row_bytes(),
            .topk = static_cast<std::size_t>(plan_.topk)};
  }

  [[nodiscard]] bool right_batches() const {
    const auto rows = rows_.bytes().first(expected_.expand_x.size());
    return std::ranges::equal(rows, expected_.expand_x) && tables_.atten_batch_size == expected_.atten_batch_size &&
           tables_.expert_ids == expected_.expert_ids && tables_.expert_scales == expected_.expert_scales;
  }

  BenchPlace& place_;
  runtime::Communicator& comm_;
  const AfdPlan& plan_;
  ops::Assignment ranks_;
  Offset record_at_;
  ops::AfdShape shape_;
  ops::AfdSignals signals_;
  ops::AfdPlace afd_;
  bool expert_;
  ops::A2eTables tables_;
  // Of an expert rank.
  AfdReceived expected_;
  std::vector<std::byte> answers_;
  RowBuffer rows_;
  RowBuffer sums_;  // MPI's, before they are sent
  std::vector<std::int32_t> ids_;
  std::vector<float> scales_;
  // Of an attention rank.
  ops::reference::AfdBatch own_;
  std::vector<std::byte> returned_;
  RowBuffer x_;
};

/// From the first rank's start to the last rank's end.
std::vector<double> afd_wall_us(const std::vector<AfdBlock>& blocks, std::array<Lap, kAfdSides> AfdRecord::*part,
                                AfdSide side) {
  std::vector<double> series;
  for (const AfdBlock& block : blocks) {
    const auto at = static_cast<std::size_t>(side);
    std::int64_t start = (block.front().*part)[at].start;
    std::int64_t end = 0;
    for (const AfdRecord& rank : block) {
      start = std::min(start, (rank.*part)[at].start);
      end = std::max(end, (rank.*part)[at].end);
    }
    series.push_back(static_cast<double>(end - start) / 1e3);
  }
  return series;
}

void add_afd_part(BenchReport& report, const char* name, const std::vector<AfdBlock>& blocks,
                  std::array<Lap, kAfdSides> AfdRecord::*part, bool has_mpi) {
  const std::vector<double> ours = afd_wall_us(blocks, part, AfdSide::ours);
  const bool right = std::ranges::all_of(blocks, [](const AfdBlock& block) {
    return std::ranges::all_of(block, [](const AfdRecord& rank) { return rank.right == 1; });
  });
  BenchRow row{.name = name,
               .ranks = static_cast<std::int32_t>(blocks.front().size()),
               .ours_us = estimate(ours).median,
               .verified = right};
  report.text += fmt::format("{:<6}{:>12.1f}", name, *row.ours_us);
  if (has_mpi) {
    const std::vector<double> mpi = afd_wall_us(blocks, part, AfdSide::mpi);
    const Estimate quotient = estimate(ratios(mpi, ours));
    row.peer_us = estimate(mpi).median;
    row.ratio = quotient.median;
    report.text += fmt::format("{:>12.1f}  {:>8.2f} ({:.2f} to {:.2f})", *row.peer_us, quotient.median, quotient.low,
                               quotient.high);
  }
  report.text += '\n';
  report.rows.push_back(std::move(row));
}

}  // namespace

void declare_afd_bench(shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); }

Result<BenchReport> bench_afd(BenchPlace& place, const AfdPlan& plan) {
  runtime::Communicator& comm = place.world.all();
  const std::int32_t experts = plan.expert_ranks.value_or(std::max(comm.ranks() / 2, 1));
  const auto ranks = ops::Assignment::of(experts, comm.ranks() - experts);
  if (!ranks) return Error{ranks.error()}.within("start more ranks, or give fewer --expert-ranks");
  const ops::AfdShape shape{.ranks = *ranks,
                            .max_batch = std::max<std::int64_t>(plan.tokens, 1),
                            .hidden = plan.hidden,
                            .topk = plan.topk,
                            .dtype = plan.dtype};
  const auto window = comm.allocate(ops::afd_window_bytes(shape, comm.profile()));
  if (!window) return window.error();
  const auto record = comm.allocate(Bytes{sizeof(AfdRecord)});
  if (!record) return record.error();
  AfdBench bench{place, plan, *ranks, *window, *record};
  if (auto warm = bench.block(0); !warm) return warm.error();
  std::vector<AfdBlock> blocks;
  for (std::int64_t number = 0; number < plan.blocks; ++number) {
    auto block = bench.block(number);
    if (!block) return std::move(block).error();
    blocks.push_back(*std::move(block));
  }
  BenchReport report;
  report.text = place.heading + (place.has_mpi() ? "" : place.alone + '\n') +
                fmt::format(
                    "{}; {}, {} of {}; {} rows of hidden {}, top {}\n\n"
                    "{:<6}{:>12}{:>12}  {}\n",
                    counted(plan.blocks, "block"), counted(std::int64_t{ranks->experts()}, "expert rank"),
                    counted(std::int64_t{ranks->attention()}, "attention rank"), counted(plan.tokens, "token"),
                    name_of(plan.dtype), plan.hidden, plan.topk, "", "ours us", place.has_mpi() ? "MPI us" : "",
                    place.has_mpi() ? "MPI over ours" : "");
  add_afd_part(report, "a2e", blocks, &AfdRecord::a2e, place.has_mpi());
  add_afd_part(report, "e2a", blocks, &AfdRecord::e2a, place.has_mpi());
  report.text += report.verified() ? "verified: bit-exact, every row and token\n"
                                   : "NOT verified: a result differs from the reference\n";
  return report;
}

}  // namespace shmoe::apps
