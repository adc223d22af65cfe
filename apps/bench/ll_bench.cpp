#include "apps/bench/ll_bench.hpp"

#include <algorithm>

#include "apps/bench/samples.hpp"
#include "apps/shmoe/say.hpp"
#include "apps/shmoe/stats.hpp"

namespace shmoe::apps {
namespace {

using LlSeries = std::vector<double>;

/// Microseconds from the first rank's start to the last rank's end, block by block. lap_of_rank: the Lap of a record.
template <class LapOfRank>
LlSeries ll_wall_us(const std::vector<LlBlock>& blocks, const LapOfRank& lap_of_rank) {
  LlSeries series;
  for (const LlBlock& block : blocks) {
    std::int64_t start = lap_of_rank(block.front()).start;
    std::int64_t end = 0;
    for (const LlRecord& rank : block) {
      start = std::min(start, lap_of_rank(rank).start);
      end = std::max(end, lap_of_rank(rank).end);
    }
    series.push_back(static_cast<double>(end - start) / 1e3);
  }
  return series;
}

LlSeries ll_call_us(const std::vector<LlBlock>& blocks, LlSide side, Lap LlCalls::*call) {
  return ll_wall_us(blocks, [=](const LlRecord& rank) { return rank.sides[static_cast<std::size_t>(side)].*call; });
}

LlSeries ll_sum_of(LlSeries first, const LlSeries& second, double times = 1) {
  for (std::size_t i = 0; i < first.size(); ++i) first[i] += times * second[i];
  return first;
}

/// Of the kinds, the series with the smallest median.
template <class Laps>
LlSeries ll_fastest(const std::vector<LlBlock>& blocks, Laps LlRecord::*laps) {
  LlSeries fastest;
  for (std::size_t kind = 0; kind < std::tuple_size_v<Laps>; ++kind) {
    LlSeries series = ll_wall_us(blocks, [=](const LlRecord& rank) { return (rank.*laps)[kind]; });
    if (fastest.empty() || estimate(series).median < estimate(fastest).median) fastest = std::move(series);
  }
  return fastest;
}

bool is_ll_verified(const std::vector<LlBlock>& blocks) {
  const auto right = [](const LlCalls& calls) { return calls.right == 1; };
  return std::ranges::all_of(blocks, [&](const LlBlock& block) {
    return std::ranges::all_of(block, [&](const LlRecord& rank) { return std::ranges::all_of(rank.sides, right); });
  });
}

class LlReport {
 public:
  LlReport(const LlBlocks& bench, const std::vector<LlBlock>& blocks, bool has_mpi)
      : ranks_(bench.workload().ranks()), blocks_(blocks), has_mpi_(has_mpi), verified_(is_ll_verified(blocks)) {}

  BenchReport make(std::string heading, bool has_least) {
    report_.text = std::move(heading);
    report_.text += fmt::format("{:<12}{:>12}{:>12}", "", "median us", "p99 us");
    if (has_mpi_)
      report_.text += fmt::format("{:>12}{:>12}  {:^24}{:>10}", "MPI us", "MPI p99", "MPI over ours", "p99");
    report_.text += '\n';
    add_call("dispatch", &LlCalls::dispatch);
    add_call("combine", &LlCalls::combine);
    if (has_least) add_round_trips();
    report_.text +=
        "\ntimes: of one call, from the first rank's start to the last rank's end; over ours: block by block, of p99 "
        "the "
        "quotient\n";
    report_.text += verified_ ? "verified: bit-exact, every row and token\n"
                              : "NOT verified: a result differs from the reference\n";
    return std::move(report_);
  }

 private:
  void add_call(const char* name, Lap LlCalls::*call) {
    const LlSeries ours = ll_call_us(blocks_, LlSide::ours, call);
    BenchRow row = row_of(fmt::format("ll.{}", name), estimate(ours).median);
    BenchRow high = row_of(fmt::format("ll.{}.p99", name), p99(ours));
    report_.text += fmt::format("{:<12}{:>12.2f}{:>12.2f}", name, *row.ours_us, *high.ours_us);
    if (has_mpi_) {
      const LlSeries mpi = ll_call_us(blocks_, LlSide::mpi, call);
      const Estimate quotient = estimate(ratios(mpi, ours));
      row.peer_us = estimate(mpi).median;
      row.ratio = quotient.median;
      high.peer_us = p99(mpi);
      high.ratio = ratios({*high.peer_us}, {*high.ours_us}).front();
      report_.text += fmt::format(
          "{:>12.2f}{:>12.2f}  {:^24}{:>10.2f}", *row.peer_us, *high.peer_us,
          fmt::format("{:.2f} ({:.2f} to {:.2f})", quotient.median, quotient.low, quotient.high), *high.ratio);
    }
    report_.text += '\n';
    report_.rows.push_back(std::move(row));
    report_.rows.push_back(std::move(high));
  }

  void add_round_trips() {
    const LlSeries both = ll_sum_of(ll_call_us(blocks_, LlSide::ours, &LlCalls::dispatch),
                                    ll_call_us(blocks_, LlSide::ours, &LlCalls::combine));
    const LlSeries flags = ll_wall_us(blocks_, [](const LlRecord& rank) { return rank.flags; });
    const LlSeries copies = ll_fastest(blocks_, &LlRecord::copies);
    const LlSeries reads = ll_fastest(blocks_, &LlRecord::reads);
    const LlSeries least = ll_sum_of(ll_sum_of(copies, reads), flags, 2.0 / kFlagRounds);
    const Estimate quotient = estimate(ratios(both, least));
    BenchRow row = row_of("ll.round_trips", estimate(both).median);
    row.value = quotient.median;
    report_.text += fmt::format(
        "\nboth calls {:.2f} us; the least {:.2f} us: two flags there and back {:.2f}, copies of the rows {:.2f}, "
        "reads of "
        "the answers {:.2f}\n"
        "both calls over the least, the median of the ratios of the blocks: {:.2f} ({:.2f} to {:.2f})\n",
        *row.ours_us, estimate(least).median, estimate(flags).median * 2 / kFlagRounds, estimate(copies).median,
        estimate(reads).median, quotient.median, quotient.low, quotient.high);
    report_.rows.push_back(std::move(row));
  }

  [[nodiscard]] BenchRow row_of(std::string name, double ours_us) const {
    return {.name = std::move(name), .ranks = ranks_, .ours_us = ours_us, .verified = verified_};
  }

  std::int32_t ranks_;
  const std::vector<LlBlock>& blocks_;
  bool has_mpi_;
  bool verified_;
  BenchReport report_;
};

}  // namespace

Result<BenchReport> bench_ll(BenchPlace& place, const LlPlan& plan) {
  const Profile& profile = place.world.all().profile();
  if (!profile.handshake) {
    return Error{
        .code = Errc::invalid_argument,
        .context = fmt::format("profile {}: as published, the flags of combine lie over the words of the barriers "
                               "between the calls; take SHMOE_PROFILE=safe",
                               name_of(profile.id))};
  }
  auto bench = LlBlocks::create(place, plan);
  if (!bench) return std::move(bench).error();
  const auto blocks = (*bench)->run();
  if (!blocks) return blocks.error();
  const EpShape& shape = plan.shape;
  std::string heading =
      place.heading + (place.has_mpi() ? "" : place.alone + '\n') +
      fmt::format(
          "{}; {} rows of hidden {}, {} a rank, top {} of {}; {} us of computing before each "
          "call\n\n",
          counted(plan.blocks, "block"), name_of(shape.dtype), shape.hidden, counted(shape.tokens, "token"), shape.topk,
          counted(shape.experts, "expert"), plan.compute_us);
  return LlReport{**bench, *blocks, place.has_mpi()}.make(std::move(heading), (*bench)->has_least());
}

}  // namespace shmoe::apps
