#include "apps/bench/ep_bench.hpp"

#include "apps/bench/ep_figures.hpp"
#include "apps/bench/ep_report.hpp"
#include "apps/bench/inspector.hpp"
#include "apps/bench/mpi_contenders.hpp"
#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/say.hpp"

namespace shmoe::apps {
namespace {

std::string heading_of(const BenchPlace& place, const EpPlan& plan, const std::string& topk) {
  const EpShape& shape = plan.shape;
  return place.heading + fmt::format("{}, {}; {} rows of hidden {}, {} a rank, top {} of {}\n",
                                     counted(plan.blocks, "block"), plan.cold ? "cold" : "warm", name_of(shape.dtype),
                                     shape.hidden, counted(shape.tokens, "token"), topk,
                                     counted(shape.experts, "expert"));
}

Result<std::vector<std::unique_ptr<Contender>>> peers_of(const BenchPlace& place, EpBlocks& bench) {
  std::vector<std::unique_ptr<Contender>> peers;
  if (!place.has_mpi()) return peers;
  const auto copy = bench.fastest_copy();
  if (!copy) return copy.error();
  peers.push_back(make_mpi_pipeline(bench.workload()));
  peers.push_back(make_mpi_hindexed(bench.workload()));
  peers.push_back(make_mpi_window(bench.workload(), *copy));
  return peers;
}

/// Ours at one shape.
struct ShapeRun {
  std::string name;  // in the report
  std::unique_ptr<EpBlocks> bench;
  std::vector<Block> blocks;

  [[nodiscard]] Series time_of(EpPart part) const { return wall_us(blocks, 0, part); }
};

Result<ShapeRun> shape_run(BenchPlace& place, EpPlan plan, const EpShape& shape, std::string name) {
  plan.shape = shape;
  auto bench = EpBlocks::create(place.world.all(), plan, false);
  if (!bench) return std::move(bench).error();
  if (auto ready = (*bench)->prepare_contenders(); !ready) return std::move(ready).error();
  return ShapeRun{std::move(name), *std::move(bench), {}};
}

Result<void> add_block(ShapeRun& run, std::int64_t number) {
  auto block = run.bench->block(number);
  if (!block) return std::move(block).error();
  run.blocks.push_back(*std::move(block));
  return {};
}

/// Ours at two shapes by turns, in one job.
class TwoShapes {
 public:
  /// `before`: a block, with whether it is of the first shape; may be empty.
  static Result<TwoShapes> run(BenchPlace& place, const EpPlan& plan, std::string name, const EpShape& other_shape,
                               std::string other_name, const std::function<void(bool)>& before = {}) {
    auto one = shape_run(place, plan, plan.shape, std::move(name));
    if (!one) return std::move(one).error();
    auto other = shape_run(place, plan, other_shape, std::move(other_name));
    if (!other) return std::move(other).error();
    for (std::int64_t number = 0; number < plan.blocks; ++number) {
      ShapeRun& first = number % 2 == 0 ? *one : *other;
      ShapeRun& second = number % 2 == 0 ? *other : *one;
      for (ShapeRun* shape : {&first, &second}) {
        if (before) before(shape == &*one);
        if (auto done = add_block(*shape, number); !done) return std::move(done).error();
      }
    }
    return TwoShapes{*std::move(one), *std::move(other)};
  }

  /// A row's time at one shape over that at the other, block by block.
  void add(BenchReport& report, const char* title, EpPart part, std::string row_name) const {
    const Series time = one_.time_of(part);
    const Series other_time = other_.time_of(part);
    Series quotients = ratios(time, other_time);
    for (double& quotient : quotients) quotient *= rows_of(other_) / rows_of(one_);
    const Estimate quotient = estimate(std::move(quotients));
    report.text += fmt::format("{:<24}{} {:.1f} us, {} {:.1f} us; a row: {:.3f} times ({:.3f} to {:.3f})\n", title,
                               one_.name, estimate(time).median, other_.name, estimate(other_time).median,
                               quotient.median, quotient.low, quotient.high);
    report.rows.push_back({.name = std::move(row_name),
                           .ranks = one_.bench->workload().ranks(),
                           .ours_us = estimate(time).median,
                           .value = quotient.median,
                           .verified = is_verified(one_.blocks, 0) && is_verified(other_.blocks, 0)});
  }
  static void add_verdict(BenchReport& report) {
    report.text += report.verified() ? "verified: bit-exact, every row and token\n"
                                     : "NOT verified: a result differs from the reference\n";
  }

 private:
  TwoShapes(ShapeRun one, ShapeRun other) : one_(std::move(one)), other_(std::move(other)) {}
  static double rows_of(const ShapeRun& run) {
    return static_cast<double>(std::max<std::int64_t>(run.bench->workload().all_pairs(), 1));
  }

  ShapeRun one_;
  ShapeRun other_;
};

}  // namespace

Result<BenchReport> bench_ep(BenchPlace& place, const EpPlan& plan) {
  auto bench = EpBlocks::create(place.world.all(), plan, place.world.config().views);
  if (!bench) return std::move(bench).error();
  const auto peers = peers_of(place, **bench);
  if (!peers) return peers.error();
  for (const auto& peer : *peers) (*bench)->add(*peer);
  const auto blocks = (*bench)->run();
  if (!blocks) return blocks.error();
  const std::string topk = fmt::to_string(plan.shape.topk);
  return ep_report(**bench, *blocks, heading_of(place, plan, topk), place.alone);
}

Result<BenchReport> bench_topk(BenchPlace& place, const EpPlan& plan, std::int32_t against) {
  EpShape other = plan.shape;
  other.topk = against;
  const auto shapes =
      TwoShapes::run(place, plan, fmt::format("top {}", plan.shape.topk), other, fmt::format("top {}", against));
  if (!shapes) return shapes.error();
  BenchReport report{.rows = {},
                     .text = heading_of(place, plan, fmt::format("{} against {}", plan.shape.topk, against))};
  const std::string name = fmt::format("ep.k{}_over_k{}", plan.shape.topk, against);
  shapes->add(report, "dispatch", EpPart::dispatch, name);
  shapes->add(report, "combine", EpPart::combine, name + ".combine");
  TwoShapes::add_verdict(report);
  return report;
}

Result<BenchReport> bench_int8(BenchPlace& place, const EpPlan& plan) {
  const EpShape& other = plan.shape;
  EpPlan quantised = plan;
  quantised.shape.quant = ops::Quant::int8;
  const auto shapes = TwoShapes::run(place, quantised, "int8", other, name_of(other.dtype));
  if (!shapes) return shapes.error();
  BenchReport report{.rows = {}, .text = heading_of(place, plan, fmt::to_string(other.topk))};
  const char* type = name_of(other.dtype);
  report.text += fmt::format("a row: {} bytes and a scale of {} against {} bytes\n",
                             ops::row_bytes(other.dtype, other.hidden, ops::Quant::int8), sizeof(float),
                             ops::row_bytes(other.dtype, other.hidden));
  const std::string name = fmt::format("ep.int8_over_{}", type);
  shapes->add(report, "dispatch", EpPart::dispatch, name);
  shapes->add(report, "dispatch and first read", EpPart::dispatch_consume, name + ".consume");
  TwoShapes::add_verdict(report);
  return report;
}

Result<BenchReport> bench_notes(BenchPlace& place, const EpPlan& plan) {
  runtime::Communicator& comm = place.world.all();
  const auto shapes = TwoShapes::run(place, plan, "with notes", plan.shape, "without",
                                     [&](bool with_notes) { comm.keep_notes(with_notes); });
  comm.keep_notes(true);
  if (!shapes) return shapes.error();
  BenchReport report{.rows = {}, .text = heading_of(place, plan, fmt::to_string(plan.shape.topk))};
  shapes->add(report, "dispatch", EpPart::dispatch, "diagnose.overhead");
  shapes->add(report, "combine", EpPart::combine, "diagnose.overhead.combine");
  TwoShapes::add_verdict(report);
  return report;
}

Result<BenchReport> bench_inspection(BenchPlace& place, const EpPlan& plan, const std::string& folder) {
  std::optional<Inspector> inspector;
  std::optional<Error> fault;
  if (place.world.rank() == Rank{0}) {
    auto started = Inspector::start(folder);
    if (started) inspector.emplace(*std::move(started));
    if (!started) fault = started.error();
  }
  if (auto ready = agree(place.world.all(), "the inspector", fault); !ready) return std::move(ready).error();
  const auto shapes = TwoShapes::run(place, plan, "looked at", plan.shape, "alone", [&](bool at_work) {
    if (inspector) inspector->look(at_work);
  });
  if (!shapes) return shapes.error();
  BenchReport report{.rows = {}, .text = heading_of(place, plan, fmt::to_string(plan.shape.topk))};
  shapes->add(report, "dispatch", EpPart::dispatch, "diagnose.inspection");
  shapes->add(report, "combine", EpPart::combine, "diagnose.inspection.combine");
  TwoShapes::add_verdict(report);
  return report;
}

}  // namespace shmoe::apps
