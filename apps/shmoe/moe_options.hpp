#pragma once
// The options of `shmoe moe`, and what they make of the settings.

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "apps/shmoe/moe_job.hpp"
#include "apps/shmoe/routing_source.hpp"
#include "runtime/config.hpp"

namespace shmoe::apps {

inline constexpr std::int32_t kDefaultRanks = 4;

struct MoeOptions {
  std::optional<std::int32_t> ranks;
  std::optional<std::int32_t> cores;
  std::optional<std::string> profile;
  std::string dtype = "bf16";
  std::string quant = "none";
  std::string mode = name_of(MoeMode::normal);
  MoePlan plan;
  std::optional<std::string> faults;  // a file
  std::optional<std::string> links;   // likewise
  std::optional<std::string> json;    // a file, or "-"
};

void add_moe_options(CLI::App& command, MoeOptions& options);
/// Once the words are parsed: fills in what options say of each other, and the plan.
void finish_moe_options(const CLI::App& command, MoeOptions& options);

/// `source`: what the routing files say, which all ranks must agree on.
/// Errors:  as Config::load, FaultPlan::load, LinkSpeeds::load
Result<runtime::Config> config_of(const MoeOptions& options, const Result<RoutingSource>& source);

}  // namespace shmoe::apps
