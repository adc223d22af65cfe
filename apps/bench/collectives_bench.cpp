#include "apps/bench/collectives_bench.hpp"

#include <algorithm>
#include <array>

#include "apps/bench/mpi_collectives.hpp"
#include "apps/bench/row_buffer.hpp"
#include "apps/bench/samples.hpp"
#include "apps/bench/slow_link.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/say.hpp"
#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"

namespace shmoe::apps {
namespace {

enum class Who : std::uint8_t { ours, mpi };
constexpr std::array kWho{Who::ours, Who::mpi};

struct PairSize {
  const char* name;
  std::int64_t bytes;   // of a pair
  std::int64_t rounds;  // of a block
};
constexpr std::array kPairSizes{PairSize{"1KiB", 1 << 10, 200}, PairSize{"64KiB", 64 << 10, 40},
                                PairSize{"1MiB", 1 << 20, 6}, PairSize{"16MiB", 16 << 20, 1}};

/// Plain: one block on one rank.
struct CollectiveRecord {
  std::array<Lap, kWho.size()> laps{};
  std::int64_t wrong = 0;  // elements
};
using CollectiveBlocks = std::vector<std::vector<CollectiveRecord>>;

/// Element i of the input of a rank: small whole numbers, whose sums are exact in any order.
float element(std::int64_t rank, std::int64_t i) { return static_cast<float>((i % 1013) * (rank + 1)); }

/// One collective at one size, ours and MPI's by turns, on the same input.
class CollectiveBench {
 public:
  CollectiveBench(BenchPlace& place, const CollectivesPlan& plan, const PairSize& size, Offset tensor_at,
                  Offset record_at)
      : place_(place),
        comm_(place.world.all()),
        plan_(plan),
        size_(size),
        chunk_(size.bytes / 4),
        elements_(chunk_ * comm_.ranks()),
        tensor_at_(tensor_at),
        record_at_(record_at),
        own_x_(static_cast<std::size_t>(size.bytes * comm_.ranks())),
        own_y_(own_x_.bytes().size()) {
    fill(floats(own_x_));
  }
  CollectiveBench(const CollectiveBench&) = delete;
  CollectiveBench& operator=(const CollectiveBench&) = delete;
  virtual ~CollectiveBench() = default;

  Result<CollectiveBlocks> run() {
    CollectiveBlocks blocks;
    for (std::int64_t number = 0; number < plan_.blocks; ++number) {
      CollectiveRecord record;
      for (std::size_t turn = 0; turn < kWho.size(); ++turn) {
        const std::size_t who = (turn + static_cast<std::size_t>(number)) % kWho.size();
        if (kWho[who] == Who::mpi && !place_.has_mpi()) continue;
        if (auto done = measure(kWho[who], record.laps[who]); !done) return std::move(done).error();
        record.wrong += wrong(result(kWho[who]));
      }
      auto gathered = gather(comm_, record_at_, record);
      if (!gathered) return std::move(gathered).error();
      blocks.push_back(*std::move(gathered));
    }
    return blocks;
  }

 protected:
  virtual Result<void> ours() = 0;
  virtual void mpi() = 0;
  virtual std::span<float> result(Who who) = 0;
  [[nodiscard]] virtual float expected(std::int64_t i) const = 0;

  static std::span<float> floats(const RowBuffer& buffer) {
    return {reinterpret_cast<float*>(buffer.data()), buffer.bytes().size() / sizeof(float)};
  }
  void fill(std::span<float> x) const {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = element(comm_.rank().value(), static_cast<std::int64_t>(i));
  }
  [[nodiscard]] std::span<float> tensor() const {
    return comm_.local<float>(tensor_at_, static_cast<std::size_t>(elements_));
  }

  BenchPlace& place_;
  runtime::Communicator& comm_;
  CollectivesPlan plan_;
  PairSize size_;
  std::int64_t chunk_;
  std::int64_t elements_;
  Offset tensor_at_;
  Offset record_at_;
  RowBuffer own_x_;
  RowBuffer own_y_;

 private:
  Result<void> call(Who who) {
    if (who == Who::ours) return ours();
    mpi();
    return {};
  }

  Result<void> measure(Who who, Lap& lap) {
    std::ranges::fill(result(who), -1.0F);
    if (auto together = comm_.barrier(); !together) return together;
    if (auto warm = call(who); !warm) return warm;
    std::ranges::fill(result(who), -1.0F);
    if (auto together = comm_.barrier(); !together) return together;
    Result<void> done;
    lap = lap_of([&] {
      for (std::int64_t round = 0; round < size_.rounds && done; ++round) done = call(who);
    });
    if (!done) return done;
    return comm_.barrier();
  }

  [[nodiscard]] std::int64_t wrong(std::span<const float> y) const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < y.size(); ++i) count += y[i] == expected(static_cast<std::int64_t>(i)) ? 0 : 1;
    return count;
  }
};

class AllToAllBench final : public CollectiveBench {
 public:
  using CollectiveBench::CollectiveBench;

 private:
  Result<void> ours() override {
    return ops::all_to_all_detour(comm_, {.shape = {.elements = elements_}, .x = own_x_.bytes(), .y_at = tensor_at_});
  }
  void mpi() override { mpi_all_to_all(own_x_.bytes(), own_y_.bytes()); }
  std::span<float> result(Who who) override { return who == Who::ours ? tensor() : floats(own_y_); }
  [[nodiscard]] float expected(std::int64_t i) const override {
    return element(i / chunk_, comm_.rank().value() * chunk_ + i % chunk_);
  }
};

class ReduceScatterBench final : public CollectiveBench {
 public:
  ReduceScatterBench(BenchPlace& place, const CollectivesPlan& plan, const PairSize& size, Offset tensor_at,
                     Offset record_at)
      : CollectiveBench(place, plan, size, tensor_at, record_at) {
    fill(tensor());
  }

 private:
  Result<void> ours() override {
    return ops::reduce_scatter_detour(comm_, {.shape = {.elements = elements_}, .x_at = tensor_at_, .y = y_bytes()});
  }
  void mpi() override { mpi_reduce_scatter(floats(own_x_), result(Who::mpi)); }
  std::span<float> result(Who /*who*/) override { return floats(own_y_).first(static_cast<std::size_t>(chunk_)); }
  [[nodiscard]] float expected(std::int64_t i) const override {
    const std::int64_t ranks = comm_.ranks();
    return element(0, comm_.rank().value() * chunk_ + i) * static_cast<float>(ranks * (ranks + 1) / 2);
  }
  [[nodiscard]] std::span<std::byte> y_bytes() const { return own_y_.bytes(0, static_cast<std::size_t>(size_.bytes)); }
};

std::vector<double> call_us(const CollectiveBlocks& blocks, Who who, std::int64_t rounds) {
  std::vector<double> series;
  for (const auto& block : blocks) {
    std::int64_t start = block.front().laps[static_cast<std::size_t>(who)].start;
    std::int64_t end = 0;
    for (const CollectiveRecord& rank : block) {
      start = std::min(start, rank.laps[static_cast<std::size_t>(who)].start);
      end = std::max(end, rank.laps[static_cast<std::size_t>(who)].end);
    }
    series.push_back(static_cast<double>(end - start) / 1e3 / static_cast<double>(rounds));
  }
  return series;
}

bool all_right(const CollectiveBlocks& blocks) {
  return std::ranges::all_of(blocks, [](const auto& block) {
    return std::ranges::all_of(block, [](const CollectiveRecord& rank) { return rank.wrong == 0; });
  });
}

void add_row(BenchReport& report, const BenchPlace& place, const std::string& name, const CollectiveBlocks& blocks,
             std::int64_t rounds) {
  const std::vector<double> ours = call_us(blocks, Who::ours, rounds);
  BenchRow row{
      .name = name, .ranks = place.world.ranks(), .ours_us = estimate(ours).median, .verified = all_right(blocks)};
  report.text += fmt::format("  {:<32}{:>12.2f}", name, *row.ours_us);
  if (place.has_mpi()) {
    const std::vector<double> mpi = call_us(blocks, Who::mpi, rounds);
    const Estimate ratio = estimate(ratios(mpi, ours));
    row.peer_us = estimate(mpi).median;
    row.ratio = ratio.median;
    report.text +=
        fmt::format("{:>12.2f}{:>8.2f}  {:.2f} to {:.2f}", *row.peer_us, ratio.median, ratio.low, ratio.high);
  }
  report.text += '\n';
  report.rows.push_back(row);
}

template <class Bench>
Result<void> add_collective(BenchReport& report, BenchPlace& place, const CollectivesPlan& plan, const char* name,
                            Offset record_at) {
  for (const PairSize& size : kPairSizes) {
    if (size.bytes > plan.most_kib * 1024) continue;
    const Bytes bytes{static_cast<std::uint64_t>(size.bytes * place.world.ranks())};
    const auto tensor_at = place.world.all().allocate(bytes);
    if (!tensor_at) return tensor_at.error();
    Bench bench{place, plan, size, *tensor_at, record_at};
    const auto blocks = bench.run();
    if (!blocks) return blocks.error();
    add_row(report, place, fmt::format("{}.{}", name, size.name), *blocks, size.rounds);
    if (auto freed = place.world.all().free(*tensor_at); !freed) return freed;
  }
  return {};
}

}  // namespace

Result<BenchReport> bench_collectives(BenchPlace& place, const CollectivesPlan& plan) {
  const auto record_at = place.world.all().allocate(Bytes{sizeof(CollectiveRecord)});
  if (!record_at) return record_at.error();
  BenchReport report;
  report.text = place.heading + (place.has_mpi() ? "" : place.alone + '\n') +
                fmt::format("{}; fp32, so many bytes for each pair of ranks\n\n  {:<32}{:>12}{}\n",
                            counted(plan.blocks, "block"), "one call", "ours us",
                            place.has_mpi() ? fmt::format("{:>12}{:>8}  95 % interval", "MPI us", "ratio") : "");
  if (auto done = add_collective<AllToAllBench>(report, place, plan, "all_to_all", *record_at); !done) {
    return std::move(done).error();
  }
  if (auto done = add_collective<ReduceScatterBench>(report, place, plan, "reduce_scatter", *record_at); !done) {
    return std::move(done).error();
  }
  if (auto done = add_slow_link(report, place); !done) return std::move(done).error();
  report.text += report.verified() ? "verified: every element of every block, and the gain of each detour\n"
                                   : "NOT verified: a result is wrong, or a gain is not as predicted\n";
  return report;
}

}  // namespace shmoe::apps
