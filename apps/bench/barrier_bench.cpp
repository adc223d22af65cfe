#include "apps/bench/barrier_bench.hpp"

#include <array>

#include "apps/bench/flag_round_trip.hpp"
#include "apps/bench/mpi_session.hpp"
#include "apps/bench/samples.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/say.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::apps {
namespace {

enum class Way : std::uint8_t { kernel, call, mpi, flag };
constexpr std::array kWays{Way::kernel, Way::call, Way::mpi, Way::flag};
constexpr std::array kWayNames{"ours, within a kernel", "ours, a call of the host", "MPI_Barrier",
                               "a bare flag there and back"};
/// Rounds in which it is checked that nobody passes before all have come.
constexpr std::int64_t kCheckedRounds = 50;

/// Plain: one block on one rank.
struct BarrierRecord {
  std::array<Lap, kWays.size()> laps{};
};

class BarrierBench {
 public:
  BarrierBench(BenchPlace& place, const BarrierPlan& plan, Offset record_at, Offset word_at, Offset flag_at)
      : place_(place),
        comm_(place.world.all()),
        plan_(plan),
        record_at_(record_at),
        word_at_(word_at),
        flag_(comm_, flag_at) {}

  /// Whether the word that the left neighbour wrote before each barrier was there after it.
  Result<bool> holds() {
    bool right = true;
    const Rank neighbour{(comm_.rank().value() + 1) % comm_.ranks()};
    auto done = comm_.launch("barrier_check", 1, [&](runtime::CoreContext& context) {
      runtime::ZeroBufferSync sync(context);
      for (std::int64_t round = 1; round <= kCheckedRounds; ++round) {
        context.put(neighbour, word_at_, std::span<const std::int64_t>{&round, 1});
        const auto written = sync.barrier_all();
        std::int64_t found = 0;
        context.get(context.rank(), word_at_, std::span{&found, 1}, written);
        right = right && found == round;
        sync.barrier_all();
      }
    });
    if (!done) return std::move(done).error();
    return right;
  }

  Result<std::vector<std::vector<BarrierRecord>>> run() {
    std::vector<std::vector<BarrierRecord>> blocks;
    for (std::int64_t number = 0; number < plan_.blocks; ++number) {
      BarrierRecord record;
      for (std::size_t turn = 0; turn < kWays.size(); ++turn) {
        const std::size_t who = (turn + static_cast<std::size_t>(number)) % kWays.size();
        if (!is_here(kWays[who])) continue;
        if (auto done = measure(kWays[who], record.laps[who]); !done) return std::move(done).error();
      }
      auto gathered = gather(comm_, record_at_, record);
      if (!gathered) return std::move(gathered).error();
      blocks.push_back(*std::move(gathered));
    }
    return blocks;
  }

  [[nodiscard]] bool is_here(Way way) const {
    if (way == Way::mpi) return place_.has_mpi();
    return way != Way::flag || comm_.ranks() == 2;
  }

 private:
  Result<void> measure(Way way, Lap& lap) {
    if (auto together = comm_.barrier(); !together) return together;
    switch (way) {
      case Way::kernel: return within_kernel(lap);
      case Way::call: return calls(lap);
      case Way::mpi: lap = lap_of([&] { mpi_barriers(plan_.rounds); }); return {};
      case Way::flag: lap = lap_of([&] { flag_.run(plan_.rounds); }); return {};
    }
    return {};
  }

  Result<void> within_kernel(Lap& lap) {
    return comm_.launch("barrier_rounds", [&](runtime::CoreContext& context) {
      runtime::ZeroBufferSync sync(context);
      sync.barrier_all();
      const Lap mine = lap_of([&] {
        for (std::int64_t round = 0; round < plan_.rounds; ++round) sync.barrier_all();
      });
      if (context.core() == Core{0}) lap = mine;
    });
  }

  Result<void> calls(Lap& lap) {
    Result<void> done;
    lap = lap_of([&] {
      for (std::int64_t round = 0; round < plan_.rounds && done; ++round) done = comm_.barrier();
    });
    return done;
  }

  BenchPlace& place_;
  runtime::Communicator& comm_;
  BarrierPlan plan_;
  Offset record_at_;
  Offset word_at_;
  FlagRoundTrip flag_;
};

std::vector<double> round_us(const std::vector<std::vector<BarrierRecord>>& blocks, Way way, std::int64_t rounds) {
  std::vector<double> series;
  for (const auto& block : blocks) {
    std::int64_t start = block.front().laps[static_cast<std::size_t>(way)].start;
    std::int64_t end = 0;
    for (const BarrierRecord& rank : block) {
      start = std::min(start, rank.laps[static_cast<std::size_t>(way)].start);
      end = std::max(end, rank.laps[static_cast<std::size_t>(way)].end);
    }
    series.push_back(static_cast<double>(end - start) / 1e3 / static_cast<double>(rounds));
  }
  return series;
}

BenchRow row_of(const std::string& name, std::int32_t ranks, const std::vector<double>& ours,
                const std::vector<double>* peer) {
  BenchRow row{.name = name, .ranks = ranks, .ours_us = estimate(ours).median, .verified = true};
  if (peer == nullptr) return row;
  row.peer_us = estimate(*peer).median;
  row.ratio = estimate(ratios(*peer, ours)).median;
  return row;
}

}  // namespace

Result<BenchReport> bench_barrier(BenchPlace& place, const BarrierPlan& plan) {
  runtime::Communicator& comm = place.world.all();
  const auto record_at = comm.allocate(Bytes{sizeof(BarrierRecord)});
  if (!record_at) return record_at.error();
  const auto word_at = comm.allocate(Bytes{sizeof(std::int64_t)});
  if (!word_at) return word_at.error();
  const auto flag_at = comm.allocate(Bytes{64});
  if (!flag_at) return flag_at.error();
  BarrierBench bench{place, plan, *record_at, *word_at, *flag_at};
  const auto holds = bench.holds();
  if (!holds) return holds.error();
  const auto blocks = bench.run();
  if (!blocks) return blocks.error();

  const auto series = [&](Way way) { return round_us(*blocks, way, plan.rounds); };
  const std::vector<double> kernel = series(Way::kernel);
  const std::vector<double> mpi = series(Way::mpi);
  const std::vector<double> flag = series(Way::flag);
  const auto* mpi_here = bench.is_here(Way::mpi) ? &mpi : nullptr;
  BenchReport report;
  report.rows.push_back(row_of("barrier", comm.ranks(), kernel, mpi_here));
  report.rows.push_back(row_of("barrier.call", comm.ranks(), series(Way::call), mpi_here));
  if (bench.is_here(Way::flag)) report.rows.push_back(row_of("barrier.flag_round_trip", comm.ranks(), kernel, &flag));
  for (BenchRow& row : report.rows) row.verified = *holds;

  report.text = place.heading + (place.has_mpi() ? "" : place.alone + '\n') +
                fmt::format("{} of {}\n\n{:<34}{:>12}  {:^20}\n", counted(plan.blocks, "block"),
                            counted(plan.rounds, "round"), "one round", "median us", "95 % interval");
  for (const Way way : kWays) {
    if (!bench.is_here(way)) continue;
    const Estimate round = estimate(series(way));
    report.text += fmt::format("  {:<32}{:>12.3f}  {:^20}\n", kWayNames[static_cast<std::size_t>(way)], round.median,
                               fmt::format("{:.3f} to {:.3f}", round.low, round.high));
  }
  report.text +=
      report.verified() ? "verified: nobody passed before all had come\n" : "NOT verified: a rank passed early\n";
  return report;
}

}  // namespace shmoe::apps
