#include "apps/check/campaign.hpp"

#include <utility>

#include "runtime/check/explain.hpp"
#include "runtime/check/replay.hpp"

namespace shmoe::apps {
namespace {

using runtime::Verdict;
using runtime::VerdictKind;
using runtime::check::Body;
using runtime::check::Explorer;
using runtime::check::Outcome;
using runtime::check::Program;
using runtime::check::Progress;
using runtime::check::Recording;
using runtime::check::Run;
using runtime::check::Setting;
using runtime::check::World;

Outcome explore(Explorer& explorer, const Campaign& campaign, const Progress& progress) {
  if (campaign.strategy == kPortfolio) return explorer.portfolio(campaign.seed, campaign.budget, progress);
  const auto strategy = runtime::check::make_strategy(campaign.strategy, campaign.seed);
  return explorer.explore(campaign.strategy, **strategy, campaign.budget, progress);
}

void run_in_world(Row& row, const Campaign& campaign, const Progress& progress) {
  World world(shape_of(*row.program, row.setting));
  const Body body = row.program->make(row.setting);
  Explorer explorer(world, body);
  Outcome outcome = explore(explorer, campaign, progress);
  row.runs = outcome.runs;
  row.decisions = outcome.most_decisions;
  row.exhausted = outcome.exhausted;
  row.verdict = outcome.failure.verdict;
  if (row.verdict.clean()) return;
  row.strategy = std::move(outcome.strategy);
  const Run small = shrink(explorer, outcome.failure);
  row.verdict = small.verdict;
  row.replay =
      to_text(Recording{.program = row.program->name, .world = to_text(row.setting), .deviations = small.deviations});
  if (!is_good(row)) row.story = explain(world, body, small);
}

}  // namespace

/// A run that is not over takes too long to be repeated thousands of times.
Run shrink(Explorer& explorer, const Run& failure) {
  if (failure.verdict.kind == VerdictKind::nondeterminism) return failure;
  if (failure.verdict.kind != VerdictKind::no_verdict) return explorer.shrink(failure);
  Run plain = explorer.replay({});
  return plain.verdict.kind == failure.verdict.kind ? std::move(plain) : failure;
}

Result<void> check_strategy(const std::string& name) {
  if (name == kPortfolio) return {};
  auto strategy = runtime::check::make_strategy(name, 0);
  if (!strategy) return std::move(strategy).error();
  return {};
}

Row run_campaign(const Program& program, const Setting& setting, const Campaign& campaign, const Progress& progress) {
  Row row{
      .program = &program, .setting = setting, .strategy = campaign.strategy, .verdict = {}, .replay = "", .story = ""};
  try {
    run_in_world(row, campaign, progress);
  } catch (const ContractViolation& e) {
    // The world itself cannot be made.
    row.verdict = Verdict{.kind = VerdictKind::broken_contract, .text = e.what(), .stuck = {}};
    row.story = to_string(row.verdict);
  }
  return row;
}

}  // namespace shmoe::apps
