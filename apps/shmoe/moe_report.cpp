#include "apps/shmoe/moe_report.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "apps/shmoe/say.hpp"
#include "apps/shmoe/stats.hpp"
#include "ops/ep/quant.hpp"

namespace shmoe::apps {
namespace {

constexpr int kSchema = 1;
/// Of larger jobs the table shows the ranks that were fastest and slowest only.
constexpr std::size_t kMostRows = 32;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double ranks_a_token(const RankRecord& record) {
  return ratio(static_cast<double>(record.ranks_reached), static_cast<double>(record.tokens));
}

double gigabytes_a_second(const MoeReport& report, const RankRecord& record, std::size_t stage) {
  const MoeShape& shape = report.shape;
  const ops::Quant quant = stage == report.send ? shape.quant : ops::Quant::none;
  const double bytes =
      static_cast<double>(record.rows_sent) * static_cast<double>(ops::row_bytes(shape.dtype, shape.hidden, quant));
  return ratio(bytes, record.total_ms[stage] * 1e6);
}

std::string rate_of(const char* stage) { return fmt::format("{}_gb_per_s", stage); }

/// Of few steps the 99th percentile is the largest, and is called so.
constexpr std::int64_t kStepsForP99 = 100;

std::string row_of(const MoeReport& report, std::size_t rank) {
  const RankRecord& record = report.ranks[rank];
  std::string text =
      fmt::format("{:>4} {:>8} {:>8} {:>7.2f}", rank, record.tokens, record.rows_received, ranks_a_token(record));
  for (std::size_t stage = 0; stage < report.stages.size(); ++stage) {
    const double high = report.steps < kStepsForP99 ? record.max_ms[stage] : record.p99_ms[stage];
    text += fmt::format(" {:>15}", fmt::format("{:.3f}/{:.3f}", record.median_ms[stage], high));
  }
  text += fmt::format(" {:>8.2f} {:>8.2f}\n", gigabytes_a_second(report, record, report.send),
                      gigabytes_a_second(report, record, report.fetch));
  return text;
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

double total_ms(const RankRecord& record) {
  return std::accumulate(record.total_ms.begin(), record.total_ms.end(), 0.0);
}

/// The different owners of a token's pairs, summed over the tokens.
std::int64_t ranks_reached(const ops::LowLatencyTables& tables) {
  const auto pairs = static_cast<std::size_t>(tables.pairs_of_token());
  std::int64_t reached = 0;
  for (std::size_t first = 0; first < tables.pair_column.size(); first += pairs) {
    std::set<Rank> ranks;
    for (std::size_t pair = first; pair < first + pairs; ++pair) {
      const std::int32_t column = tables.pair_column[pair];
      if (column >= 0) ranks.insert(tables.owner[static_cast<std::size_t>(column)]);
    }
    reached += std::ssize(ranks);
  }
  return reached;
}

std::vector<std::size_t> ranks_to_show(const MoeReport& report) {
  std::vector<std::size_t> ranks(report.ranks.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  if (ranks.size() <= kMostRows) return ranks;
  const auto slower = [&](std::size_t a, std::size_t b) {
    return total_ms(report.ranks[a]) < total_ms(report.ranks[b]);
  };
  const auto [fastest, slowest] = std::minmax_element(ranks.begin(), ranks.end(), slower);
  return {*fastest, *slowest};
}

}  // namespace

StepFigures figures_of(const MoeStep& step, std::int32_t topk) {
  const auto ids = step.routing.topk_idx();
  const auto& reached = step.layout.num_tokens_per_rank;
  return {.tokens = static_cast<std::int64_t>(ids.size()) / topk,
          .rows_sent = static_cast<std::int64_t>(ids.size()) - std::ranges::count(ids, -1),
          .rows_received = step.notify.recv_rows,
          .ranks_reached = std::accumulate(reached.begin(), reached.end(), std::int64_t{0}),
          .times = {step.times.begin(), step.times.end()}};
}

StepFigures figures_of(const LowLatencyStep& step) {
  const auto ids = step.routing.topk_idx();
  return {.tokens = step.routing.tokens(),
          .rows_sent = static_cast<std::int64_t>(ids.size()) - std::ranges::count(ids, -1),
          .rows_received = step.tables->recv_rows,
          .ranks_reached = ranks_reached(*step.tables),
          .times = {step.times.begin(), step.times.end()}};
}

void RankRecorder::add(const StepFigures& step) {
  record_.tokens += step.tokens;
  record_.rows_sent += step.rows_sent;
  record_.rows_received += step.rows_received;
  record_.ranks_reached += step.ranks_reached;
  for (std::size_t stage = 0; stage < samples_ms_.size(); ++stage) {
    samples_ms_[stage].push_back(std::chrono::duration<double, std::milli>(step.times[stage]).count());
  }
}

RankRecord RankRecorder::record() const {
  RankRecord record = record_;
  for (std::size_t stage = 0; stage < samples_ms_.size(); ++stage) {
    record.median_ms[stage] = median(samples_ms_[stage]);
    record.p99_ms[stage] = p99(samples_ms_[stage]);
    record.max_ms[stage] = quantile(samples_ms_[stage], 1);
    record.total_ms[stage] = std::accumulate(samples_ms_[stage].begin(), samples_ms_[stage].end(), 0.0);
  }
  return record;
}

bool MoeReport::verified() const {
  return std::ranges::all_of(ranks, [&](const RankRecord& rank) { return rank.verified_steps == warmup + steps; });
}

double MoeReport::imbalance() const {
  std::int64_t most = 0;
  std::int64_t sum = 0;
  for (const RankRecord& rank : ranks) {
    most = std::max(most, rank.rows_received);
    sum += rank.rows_received;
  }
  const auto receivers = mode == MoeMode::afd ? static_cast<double>(expert_ranks) : static_cast<double>(ranks.size());
  return sum == 0 ? 1 : static_cast<double>(most) * receivers / static_cast<double>(sum);
}

std::string to_text(const MoeReport& report) {
  std::string text = fmt::format("{} of {}, started by {}, profile {}{}{}\n", counted(std::ssize(report.ranks), "rank"),
                                 counted(report.cores, "core"), report.launcher, report.profile,
                                 report.weak_seed == 0 ? "" : fmt::format(", weak puts of seed {}", report.weak_seed),
                                 report.views ? "" : ", without views");
  text += fmt::format("routing {}: {}, top {}; {} rows of hidden {}{}; weights {}; {} after {} to warm up\n",
                      report.routing, counted(report.experts, "expert"), report.topk, name_of(report.shape.dtype),
                      report.shape.hidden, report.shape.quant == ops::Quant::int8 ? ", sent as int8" : "",
                      report.weights, counted(report.steps, "step"), report.warmup);
  if (report.mode == MoeMode::low_latency)
    text += "mode low-latency: one kernel fetches the counts and sends the rows\n";
  if (report.mode == MoeMode::afd) {
    const auto experts = static_cast<std::size_t>(report.expert_ranks);
    text +=
        fmt::format("mode afd: {} for experts, {} for attention\n", counted(std::int64_t{report.expert_ranks}, "rank"),
                    counted(std::int64_t(report.ranks.size() - experts), "rank"));
  }
  if (!report.how.empty()) text += fmt::format("as published: {}\n", report.how);
  if (!report.links.empty()) text += fmt::format("links of {}: puts are held back, times are theirs\n", report.links);
  if (!report.faults.empty())
    text +=
        fmt::format("faults of {}: times are theirs too; SHMOE_LOG=info names those that never came to their point\n",
                    report.faults);
  if (const std::string huge = shm_huge_pages(); huge != "yes") text += fmt::format("huge pages: {}\n", huge);
  if (!report.doubt.empty()) text += fmt::format("note: {}\n", report.doubt);
  text += '\n';
  const char* times = report.steps < kStepsForP99 ? "milliseconds, median/max" : "milliseconds, median/p99";
  text += fmt::format("{:>4} {:>8} {:>8} {:>7} {:^{}} {}\n", "", "", "rows", "ranks/", times,
                      16 * report.stages.size() - 1, "GB/s incl. waiting");
  text += fmt::format("{:>4} {:>8} {:>8} {:>7}", "rank", "tokens", "received", "token");
  for (const char* stage : report.stages) text += fmt::format(" {:>15}", stage);
  text += fmt::format(" {:>8} {:>8}\n", report.stages[report.send], report.stages[report.fetch]);
  const std::vector<std::size_t> shown = ranks_to_show(report);
  for (const std::size_t rank : shown) text += row_of(report, rank);
  if (shown.size() < report.ranks.size()) {
    text += fmt::format("(fastest and slowest of {} ranks; all of them with --json)\n", report.ranks.size());
  }
  text += fmt::format(
      "\ntokens, rows: sums over the measured steps; ranks/token: mean of the different ranks a token goes to\n"
      "GB/s: rows that a rank sends by {} and gets back by {}, by its time there\n"
      "imbalance: the busiest rank received {:.2f} times the mean\n",
      report.stages[report.send], report.stages[report.fetch], report.imbalance());
  text += report.verified()
              ? fmt::format("verified: bit-exact, every row and token of {} on {}\n",
                            counted(report.warmup + report.steps, "step"), counted(std::ssize(report.ranks), "rank"))
              : std::string{"not verified\n"};
  return text;
}

nlohmann::ordered_json to_json(const MoeReport& report, const Machine& machine) {
  nlohmann::ordered_json json;
  json["schema"] = kSchema;
  json["command"] = "shmoe moe";
  json["machine"] = to_json(machine);
  json["world"] = {{"launcher", report.launcher},
                   {"mode", name_of(report.mode)},
                   {"ranks", report.ranks.size()},
                   {"cores", report.cores},
                   {"profile", report.profile},
                   {"weak_seed", report.weak_seed},
                   {"views", report.views},
                   {"links", text_or_null(report.links)},
                   {"faults", text_or_null(report.faults)},
                   {"routing", report.routing},
                   {"weights", report.weights},
                   {"experts", report.experts},
                   {"topk", report.topk},
                   {"dtype", name_of(report.shape.dtype)},
                   {"hidden", report.shape.hidden},
                   {"quant", name_of(report.shape.quant)},
                   {"seed", report.shape.seed},
                   {"steps", report.steps},
                   {"warmup", report.warmup}};
  if (report.mode == MoeMode::afd) json["world"]["expert_ranks"] = report.expert_ranks;
  json["ranks"] = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankRecord& record = report.ranks[rank];
    nlohmann::ordered_json stages;
    for (std::size_t stage = 0; stage < report.stages.size(); ++stage) {
      stages[report.stages[stage]] = {{"median_ms", record.median_ms[stage]},
                                      {"p99_ms", record.p99_ms[stage]},
                                      {"total_ms", record.total_ms[stage]}};
    }
    json["ranks"].push_back({{"rank", rank},
                             {"tokens", record.tokens},
                             {"rows_sent", record.rows_sent},
                             {"rows_received", record.rows_received},
                             {"ranks_per_token", ranks_a_token(record)},
                             {rate_of(report.stages[report.send]), gigabytes_a_second(report, record, report.send)},
                             {rate_of(report.stages[report.fetch]), gigabytes_a_second(report, record, report.fetch)},
                             {"stages", stages}});
  }
  json["imbalance"] = report.imbalance();
  json["verified"] = report.verified();
  return json;
}

}  // namespace shmoe::apps
