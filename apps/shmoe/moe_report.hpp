#pragma once
// What the main job says in the end: a record of each rank, as a table and as JSON (moe.schema.json).

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/shmoe/low_latency_step.hpp"
#include "apps/shmoe/machine.hpp"
#include "apps/shmoe/moe_step.hpp"

namespace shmoe::apps {

/// Plain, because it travels through symmetric memory. Sums are over the measured steps.
struct RankRecord {
  std::int64_t tokens = 0;
  std::int64_t rows_sent = 0;  // and got back: pairs; in mode afd the rows of an attention rank
  std::int64_t rows_received = 0;
  std::int64_t ranks_reached = 0;   // different ranks of each token, summed
  std::int64_t verified_steps = 0;  // warm-up included
  std::array<double, kStages> median_ms{};
  std::array<double, kStages> p99_ms{};
  std::array<double, kStages> max_ms{};
  std::array<double, kStages> total_ms{};
};

/// Which operators a step is made of.
enum class MoeMode : std::uint8_t { normal, low_latency, afd };
inline constexpr std::array kMoeModes{MoeMode::normal, MoeMode::low_latency, MoeMode::afd};
constexpr const char* name_of(MoeMode mode) {
  constexpr std::array kNames{"normal", "low-latency", "afd"};
  return kNames[static_cast<std::size_t>(mode)];
}

/// What a rank did in one step.
struct StepFigures {
  std::int64_t tokens = 0;
  std::int64_t rows_sent = 0;
  std::int64_t rows_received = 0;
  std::int64_t ranks_reached = 0;
  std::vector<std::chrono::nanoseconds> times;  // of each stage
};
StepFigures figures_of(const MoeStep& step, std::int32_t topk);
StepFigures figures_of(const LowLatencyStep& step);

/// Collects one rank's steps.
class RankRecorder {
 public:
  explicit RankRecorder(std::size_t stages) : samples_ms_(stages) {}
  void add(const StepFigures& step);
  void verified() { ++record_.verified_steps; }
  [[nodiscard]] RankRecord record() const;

 private:
  RankRecord record_;
  std::vector<std::vector<double>> samples_ms_;  // of each stage
};

struct MoeReport {
  std::string launcher;
  MoeMode mode = MoeMode::normal;
  std::vector<const char*> stages{kStageNames.begin(), kStageNames.end()};  // of a step
  // The stage that sends rows, and the one that fetches answers.
  std::size_t send = static_cast<std::size_t>(Stage::dispatch);
  std::size_t fetch = static_cast<std::size_t>(Stage::combine);
  std::int32_t expert_ranks = 0;  // mode afd
  std::string routing;
  std::string weights;   // as RoutingSource says
  std::string doubt;     // likewise; a line of the table where there is one
  std::string how = {};  // what a published profile makes the mode do; likewise
  std::string profile;
  std::uint64_t weak_seed = 0;  // 0: puts land at once
  bool views = true;
  std::string links;   // the file; empty: puts go at full speed
  std::string faults;  // likewise
  std::int32_t cores = 1;
  std::int32_t experts = 0;
  std::int32_t topk = 0;
  MoeShape shape;
  std::int64_t steps = 0;
  std::int64_t warmup = 0;
  std::vector<RankRecord> ranks;

  [[nodiscard]] bool verified() const;
  /// Rows of the rank that received most, in relation to the mean of those that receive; 1 where none received any.
  [[nodiscard]] double imbalance() const;
};

std::string to_text(const MoeReport& report);
nlohmann::ordered_json to_json(const MoeReport& report, const Machine& machine);

}  // namespace shmoe::apps
