#pragma once
// One program in one world under one strategy.

#include <cstdint>
#include <string>

#include "runtime/check/explore.hpp"
#include "runtime/check/program.hpp"

namespace shmoe::apps {

inline constexpr std::string_view kPortfolio = "portfolio";

struct Campaign {
  std::string strategy{kPortfolio};
  runtime::check::Budget budget;
  std::uint64_t seed = 1;
};

/// What came of it.
struct Row {
  const runtime::check::Program* program;
  runtime::check::Setting setting;
  std::string strategy;  // where a portfolio has found a failure: its part that did
  std::uint64_t runs = 0;
  std::uint64_t decisions = 0;  // most of a schedule
  bool exhausted = false;
  runtime::Verdict verdict;
  std::string replay;  // of a failure, shrunk
  std::string story;   // of a failure that was not expected
};

inline bool is_good(const Row& row) { return same_fault(row.verdict.kind, row.program->expected); }

/// Errors:  as runtime::check::make_strategy
Result<void> check_strategy(const std::string& name);

/// The failure with as few choices as can be found.
runtime::check::Run shrink(runtime::check::Explorer& explorer, const runtime::check::Run& failure);

/// A failure is shrunk; one that was not expected is explained. The strategy is one that check_strategy let pass.
Row run_campaign(const runtime::check::Program& program, const runtime::check::Setting& setting,
                 const Campaign& campaign, const runtime::check::Progress& progress);

}  // namespace shmoe::apps
