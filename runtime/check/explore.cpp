#include "runtime/check/explore.hpp"

#include <algorithm>

namespace shmoe::runtime::check {
namespace {

using Clock = std::chrono::steady_clock;

/// Dense at the start, then rare: what changes with every run shows early.
bool repeated(std::uint64_t run) { return (run & (run - 1)) == 0 || run % 512 == 1; }

constexpr std::string_view kPortfolioParts[] = {"random", "pct1", "pct2", "pct3", "delay2"};
constexpr std::uint64_t kProgressEvery = 256;
constexpr int kMostShrinkRuns = 5000;

/// Never nothing, which would be no limit.
std::chrono::milliseconds share_of(std::chrono::milliseconds time) {
  const auto part = time / static_cast<int>(std::size(kPortfolioParts));
  return time.count() > 0 && part.count() == 0 ? std::chrono::milliseconds{1} : part;
}

}  // namespace

Outcome Explorer::explore(std::string_view name, Strategy& strategy, const Budget& budget, const Progress& progress) {
  const auto start = Clock::now();
  Outcome outcome;
  outcome.strategy = name;
  while (outcome.runs < budget.runs) {
    strategy.begin_run();
    Run run = world_->run(*body_, strategy);
    ++outcome.runs;
    outcome.most_decisions = std::max(outcome.most_decisions, run.decisions);
    if (run.outdated) strategy.start_again();
    const bool failed = !run.verdict.clean();
    if (!run.outdated && (failed || repeated(outcome.runs))) {
      const Run again = replay(run.deviations);
      if (again.fingerprint != run.fingerprint || again.verdict.clean() == failed) {
        run.verdict = {.kind = VerdictKind::nondeterminism,
                       .text =
                           "the same choices led to other steps: the program depends on something besides its "
                           "inputs and its waits, as time, addresses, or what an earlier run left behind",
                       .stuck = {}};
      }
    }
    if (!run.verdict.clean()) {
      outcome.failure = std::move(run);
      return outcome;
    }
    const bool more = run.outdated || strategy.end_run(run.decisions);
    if (!more) {
      outcome.exhausted = true;
      return outcome;
    }
    if (progress && outcome.runs % kProgressEvery == 0) progress(outcome);
    if (budget.time.count() > 0 && Clock::now() - start > budget.time) break;
  }
  return outcome;
}

Outcome Explorer::portfolio(std::uint64_t seed, const Budget& budget, const Progress& progress) {
  Outcome all;
  for (std::size_t i = 0; i < std::size(kPortfolioParts); ++i) {
    const Budget share{.runs = (budget.runs + i) / std::size(kPortfolioParts), .time = share_of(budget.time)};
    const auto strategy = make_strategy(kPortfolioParts[i], seed);
    const std::uint64_t before = all.runs;
    Outcome part = explore(kPortfolioParts[i], **strategy, share, [&](const Outcome& now) {
      if (!progress) return;
      Outcome sum = now;
      sum.runs += before;
      progress(sum);
    });
    all.strategy = part.strategy;
    all.runs += part.runs;
    all.most_decisions = std::max(all.most_decisions, part.most_decisions);
    all.failure = std::move(part.failure);
    if (!all.failure.verdict.clean()) break;
  }
  return all;
}

Run Explorer::replay(const Deviations& deviations, bool with_story) {
  Replay strategy(deviations);
  while (true) {
    strategy.begin_run();
    Run run = world_->run(*body_, strategy, with_story);
    if (!run.outdated) return run;
  }
}

Run Explorer::shrink(const Run& failure) {
  Run best = failure;
  int left = kMostShrinkRuns;
  const auto better = [&](const Deviations& candidate) {
    if (left-- <= 0) return false;
    Run run = replay(candidate);
    if (!same_fault(run.verdict.kind, failure.verdict.kind)) return false;
    if (run.deviations.size() > best.deviations.size()) return false;
    best = std::move(run);
    return true;
  };
  if (!better(failure.deviations)) return best;
  for (bool smaller = true; smaller && left > 0;) {
    smaller = false;
    for (std::size_t length = std::max<std::size_t>(best.deviations.size() / 2, 1);; length /= 2) {
      for (std::size_t first = 0; first + length <= best.deviations.size();) {
        Deviations candidate = best.deviations;
        const auto from = candidate.begin() + static_cast<std::ptrdiff_t>(first);
        candidate.erase(from, from + static_cast<std::ptrdiff_t>(length));
        if (better(candidate)) {
          smaller = true;
        } else {
          first += length;
        }
      }
      if (length <= 1) break;
    }
    for (std::size_t i = 0; i < best.deviations.size(); ++i) {
      for (std::uint32_t option = 1; option < best.deviations[i].option; ++option) {
        Deviations candidate = best.deviations;
        candidate[i].option = option;
        if (better(candidate)) {
          smaller = true;
          break;
        }
      }
    }
  }
  return best;
}

}  // namespace shmoe::runtime::check
