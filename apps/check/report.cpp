#include "apps/check/report.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "apps/shmoe/say.hpp"

namespace shmoe::apps {
namespace {

using runtime::check::Outcome;

constexpr int kSchema = 1;
// No setting: it only keeps logs short where no terminal shows the progress.
constexpr std::chrono::seconds kBetweenLines{5};
// No setting: a terminal need not be rewritten more often than one can read.
constexpr std::chrono::milliseconds kBetweenRewrites{100};

/// "at most 3 delays" of "delay3"; empty for a strategy without a bound.
std::string bound_of(std::string_view strategy) {
  for (const auto& [name, what] : {std::pair{"delay", "delay"}, std::pair{"preempt", "preemption"}}) {
    if (!strategy.starts_with(name)) continue;
    const char bound = strategy.back();
    return fmt::format("at most {} {}{}", bound, what, bound == '1' ? "" : "s");
  }
  return "";
}

std::string result_of(const Row& row) {
  if (!row.verdict.clean()) {
    const std::string_view found = name_of(row.verdict.kind);
    if (is_good(row)) return fmt::format("{}, as expected", found);
    if (row.program->expected == runtime::VerdictKind::clean) return fmt::format("FAILED: {}", found);
    return fmt::format("FAILED: {}, expected {}", found, name_of(row.program->expected));
  }
  if (!is_good(row)) return fmt::format("FAILED: clean, expected {}", name_of(row.program->expected));
  const std::string bound = bound_of(row.strategy);
  if (bound.empty()) return "clean";
  return row.exhausted ? fmt::format("clean: every schedule with {}", bound)
                       : fmt::format("clean so far: not every schedule with {}", bound);
}

std::string meaning_of(std::span<const Row> rows) {
  const auto is_clean = [](const Row& row) { return row.verdict.clean() && is_good(row); };
  if (std::ranges::none_of(rows, is_clean) || !std::ranges::all_of(rows, is_good)) return "";
  const std::string bound = bound_of(rows.front().strategy);
  if (bound.empty()) {
    return "clean: none of these schedules failed in this world; others may. --strategy delay3 tries all of a kind\n";
  }
  const bool all = std::ranges::all_of(rows, [&](const Row& row) { return !is_clean(row) || row.exhausted; });
  return fmt::format("clean: {} in that world and with these inputs{}\n",
                     all ? fmt::format("no schedule with {} fails", bound) : "of the schedules tried none fails",
                     all ? "; one that needs more was not looked for" : "; --runs allows more");
}

}  // namespace

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) { restart(); }

void ProgressLine::restart() { start_ = last_ = Clock::now(); }

void ProgressLine::operator()(std::string_view program, const Outcome& now) {
  const auto time = Clock::now();
  if (terminal_ ? time - last_ < kBetweenRewrites : time - last_ < kBetweenLines) return;
  last_ = time;
  const double seconds = std::chrono::duration<double>(time - start_).count();
  const std::string line =
      fmt::format("{}: {} schedules, {:.0f}/s, {}, up to {} decisions, no verdict yet", program, now.runs,
                  static_cast<double>(now.runs) / seconds, now.strategy, now.most_decisions);
  if (!terminal_) return say("{}", line);
  fmt::print(stderr, "\r\033[K{}", line.substr(0, 100));
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

std::string header_text() {
  return fmt::format("{:<28} {:<24} {:<9} {:>10} {:>10}  {}\n", "program", "world", "strategy", "schedules",
                     "decisions", "result");
}

std::string to_text(const Row& row) {
  std::string text = fmt::format("{:<28} {:<24} {:<9} {:>10} {:>10}  {}\n", row.program->name, to_text(row.setting),
                                 row.strategy, row.runs, row.decisions, result_of(row));
  if (is_good(row) && !row.replay.empty()) text += fmt::format("    {}\n", row.replay);
  return text;
}

std::string failure_text(const Row& row, const Campaign& campaign, std::string_view command) {
  std::string text = fmt::format("\n{} in world {}, schedule {} of {} with seed {}\n", row.program->name,
                                 to_text(row.setting), row.runs, row.strategy, campaign.seed);
  if (row.verdict.clean()) {
    return text +
           fmt::format("expected {} and found nothing in {} schedules: more --runs, another --seed or --strategy\n",
                       name_of(row.program->expected), row.runs);
  }
  text += row.story + '\n';
  if (row.replay.empty()) return text;
  return text + fmt::format("\nagain, with every step:\n  {} replay --story {}\n", command, row.replay);
}

std::string summary_text(std::span<const Row> rows, const Campaign& campaign) {
  const auto good = static_cast<std::size_t>(std::ranges::count_if(rows, is_good));
  return fmt::format("\n{} of {} programs as expected; seed {}\n{}", good, rows.size(), campaign.seed,
                     meaning_of(rows));
}

nlohmann::ordered_json to_json(std::span<const Row> rows, const Campaign& campaign, std::string_view command) {
  nlohmann::ordered_json json{{"schema", kSchema}, {"command", fmt::format("{} run", command)}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    json["rows"].push_back({{"name", row.program->name},
                            {"world", to_text(row.setting)},
                            {"strategy", row.strategy},
                            {"runs", row.runs},
                            {"decisions", row.decisions},
                            {"exhausted", row.exhausted},
                            {"verdict", name_of(row.verdict.kind)},
                            {"expected", name_of(row.program->expected)},
                            {"good", is_good(row)},
                            {"text", row.verdict.text},
                            {"replay", row.replay},
                            {"seed", campaign.seed}});
  }
  return json;
}

}  // namespace shmoe::apps
