#include "apps/bench/ep_bench.hpp"

#include "apps/bench/ep_figures.hpp"
#include "apps/bench/ep_report.hpp"
#include "apps/bench/mpi_contenders.hpp"
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

/// A row's time at one top k over that at the other, block by block.
Estimate quotient_a_row(const Series& time, const EpBlocks& bench, const Series& other_time, const EpBlocks& other) {
  const double rows = static_cast<double>(other.workload().all_pairs()) /
                      static_cast<double>(std::max<std::int64_t>(bench.workload().all_pairs(), 1));
  Series quotients = ratios(time, other_time);
  for (double& quotient : quotients) quotient *= rows;
  return estimate(std::move(quotients));
}

struct TopkRun {
  std::unique_ptr<EpBlocks> bench;
  std::vector<Block> blocks;
};

Result<TopkRun> topk_run(BenchPlace& place, EpPlan plan, std::int32_t topk) {
  plan.shape.topk = topk;
  auto bench = EpBlocks::create(place.world.all(), plan, false);
  if (!bench) return std::move(bench).error();
  if (auto ready = (*bench)->prepare_contenders(); !ready) return std::move(ready).error();
  return TopkRun{*std::move(bench), {}};
}

Result<void> add_block(TopkRun& run, std::int64_t number) {
  auto block = run.bench->block(number);
  if (!block) return std::move(block).error();
  run.blocks.push_back(*std::move(block));
  return {};
}

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
  auto run = topk_run(place, plan, plan.shape.topk);
  if (!run) return std::move(run).error();
  auto other = topk_run(place, plan, against);
  if (!other) return std::move(other).error();
  for (std::int64_t number = 0; number < plan.blocks; ++number) {
    TopkRun& first = number % 2 == 0 ? *run : *other;
    TopkRun& second = number % 2 == 0 ? *other : *run;
    if (auto done = add_block(first, number); !done) return std::move(done).error();
    if (auto done = add_block(second, number); !done) return std::move(done).error();
  }
  BenchReport report;
  report.text = heading_of(place, plan, fmt::format("{} against {}", plan.shape.topk, against));
  for (const EpPart part : {EpPart::dispatch, EpPart::combine}) {
    const bool combine = part == EpPart::combine;
    const Series time = wall_us(run->blocks, 0, part);
    const Series other_time = wall_us(other->blocks, 0, part);
    const Estimate quotient = quotient_a_row(time, *run->bench, other_time, *other->bench);
    report.text += fmt::format("{:<10}{:>10.1f} us against {:.1f} us; a row: {:.3f} times ({:.3f} to {:.3f})\n",
                               combine ? "combine" : "dispatch", estimate(time).median, estimate(other_time).median,
                               quotient.median, quotient.low, quotient.high);
    report.rows.push_back(
        {.name = fmt::format("ep.k{}_over_k{}{}", plan.shape.topk, against, combine ? ".combine" : ""),
         .ranks = place.world.ranks(),
         .ours_us = estimate(time).median,
         .value = quotient.median,
         .verified = is_verified(run->blocks, 0) && is_verified(other->blocks, 0)});
  }
  return report;
}

}  // namespace shmoe::apps
