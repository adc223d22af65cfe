#include "apps/bench/ep_report.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "apps/bench/ep_figures.hpp"
#include "apps/shmoe/say.hpp"

namespace shmoe::apps {
namespace {

constexpr std::array kPartTitles{"dispatch, with layout and notify", "dispatch and first read", "combine"};
constexpr std::array kPartRows{"ep.dispatch", "ep.dispatch_consume", "ep.combine"};

std::string interval(const Estimate& figure, int digits) {
  return fmt::format("{:.{}f} to {:.{}f}", figure.low, digits, figure.high, digits);
}

class EpReport {
 public:
  EpReport(const EpBlocks& bench, const std::vector<Block>& blocks) : bench_(bench), blocks_(blocks) {}

  BenchReport make() {
    for (const EpPart part : kEpParts) add_part(part);
    add_stages();
    return std::move(report_);
  }

 private:
  [[nodiscard]] std::size_t contenders() const { return bench_.contenders().size(); }
  [[nodiscard]] Series cpu(std::size_t who, EpPart part) const {
    return cpu_us_a_row(blocks_, who, part, bench_.workload().all_pairs());
  }
  /// `limit` over `time`, where there is a limit.
  [[nodiscard]] std::optional<double> share(const Series& limit, const Series& time) const {
    if (limit.empty()) return std::nullopt;
    return estimate(ratios(limit, time)).median;
  }

  void add_part(EpPart part) {
    const auto number = static_cast<std::size_t>(part);
    const Series ours = wall_us(blocks_, 0, part);
    const Limit limit = bench_.with_limits() ? limit_of(blocks_, part) : Limit{};
    report_.text += fmt::format("{:<34}{:>10}  {:^22}{:>8}  {:^16}{:>11}{:>10}\n", kPartTitles[number], "median us",
                                "95 % interval", "/ ours", "95 % interval", "CPU us/row", "of limit");
    for (std::size_t who = 0; who < contenders(); ++who) {
      add_line(who, part, ours, limit);
      if (who > 0 || contenders() == 1) add_row(who, part, ours, limit);
    }
    if (bench_.with_limits()) add_limit_lines(part);
    report_.text += '\n';
  }

  void add_limit_lines(EpPart part) {
    const char* role = "limit:";
    for (const Limit& limit : limits_of(blocks_, part)) {
      report_.text += fmt::format("  {:<32}{:>10.1f}  {:^22}\n", fmt::format("{} {}", role, limit.kind),
                                  estimate(limit.us).median, interval(estimate(limit.us), 1));
      role = "      ";
    }
  }

  void add_line(std::size_t who, EpPart part, const Series& ours, const Limit& limit) {
    const Series time = wall_us(blocks_, who, part);
    const Estimate quotient = estimate(ratios(time, ours));
    const auto of_limit = share(limit.us, time);
    report_.text += fmt::format("  {:<32}{:>10.1f}  {:^22}", bench_.contenders()[who]->name(), estimate(time).median,
                                interval(estimate(time), 1));
    report_.text += who == 0 ? fmt::format("{:>8}  {:^16}", "", "")
                             : fmt::format("{:>8.2f}  {:^16}", quotient.median, interval(quotient, 2));
    report_.text += fmt::format("{:>11.3f}{:>10}\n", estimate(cpu(who, part)).median,
                                of_limit ? fmt::format("{:.3f}", *of_limit) : "");
  }

  /// Without peers the only row is that of ours.
  void add_row(std::size_t who, EpPart part, const Series& ours, const Limit& limit) {
    const Series time = wall_us(blocks_, who, part);
    const std::string name = kPartRows[static_cast<std::size_t>(part)];
    BenchRow row{.name = who <= 1 ? name : fmt::format("{}.vs_{}", name, bench_.contenders()[who]->key()),
                 .ranks = bench_.workload().ranks(),
                 .ours_us = estimate(ours).median,
                 .limit_share = share(limit.us, ours),
                 .value = estimate(cpu(who <= 1 ? 0 : who, part)).median,
                 .verified = is_verified(blocks_, 0) && is_verified(blocks_, who)};
    if (who > 0) {
      row.peer_us = estimate(time).median;
      row.ratio = estimate(ratios(time, ours)).median;
    }
    report_.rows.push_back(std::move(row));
  }

  void add_stages() {
    report_.text += fmt::format("{:<34}{:>10}{:>12}{:>10}  {}\n", "stages, of the slowest rank", "median us",
                                "limit us", "of limit", "limit");
    for (std::size_t who = 0; who < contenders(); ++who) {
      report_.text += fmt::format("  {}\n", bench_.contenders()[who]->name());
      const auto names = bench_.contenders()[who]->stages().names;
      for (std::size_t stage = 0; stage < names.size(); ++stage) add_stage(who, stage, names[stage]);
    }
    report_.text += '\n';
  }

  void add_stage(std::size_t who, std::size_t stage, std::string_view name) {
    const Series time = stage_us(blocks_, who, stage);
    const auto limit = bench_.with_limits() ? stage_limit(name) : std::nullopt;
    const auto of_limit = limit ? share(limit->us, time) : std::nullopt;
    report_.text += fmt::format("    {:<30}{:>10.1f}", name, estimate(time).median);
    if (limit)
      report_.text += fmt::format("{:>12.1f}{:>10.3f}  {}", estimate(limit->us).median, *of_limit, limit->kind);
    report_.text += '\n';
    std::string row_name = fmt::format("ep.{}.{}", bench_.contenders()[who]->key(), name);
    std::ranges::replace(row_name, ' ', '_');
    BenchRow row{.name = std::move(row_name),
                 .ranks = bench_.workload().ranks(),
                 .limit_share = of_limit,
                 .verified = is_verified(blocks_, who)};
    (who == 0 ? row.ours_us : row.peer_us) = estimate(time).median;
    report_.rows.push_back(std::move(row));
  }

  /// What a stage of this name is measured by, whoever has it.
  [[nodiscard]] std::optional<Limit> stage_limit(std::string_view name) const {
    const auto is = [name](std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, name) != names.end();
    };
    if (is({"dispatch", "store"})) return limit_of(blocks_, EpPart::dispatch);
    if (is({"combine", "sum"})) return limit_of(blocks_, EpPart::combine);
    if (is({"pack", "permute", "permute back", "alltoallv", "alltoallv back", "alltoallw", "alltoallw back"})) {
      return Limit{"memcpy of the same bytes within a rank", copy_within_us(blocks_)};
    }
    return std::nullopt;
  }

  const EpBlocks& bench_;
  const std::vector<Block>& blocks_;
  BenchReport report_;
};

}  // namespace

BenchReport ep_report(const EpBlocks& bench, const std::vector<Block>& blocks, const std::string& heading,
                      const std::string& alone) {
  BenchReport report = EpReport{bench, blocks}.make();
  report.text = heading + (alone.empty() ? "" : alone + '\n') + '\n' + report.text;
  report.text +=
      "times: from the first rank's start to the last rank's end, of dispatch and first read the sum of both; / ours: "
      "block by block; of limit: likewise\n"
      "stages without a limit move no rows\n";
  report.text += report.verified() ? fmt::format("verified: bit-exact, every row and token of {}\n",
                                                 counted(std::ssize(blocks), "block"))
                                   : std::string{"NOT verified: a result differs from the reference\n"};
  return report;
}

}  // namespace shmoe::apps
