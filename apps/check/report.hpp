#pragma once
// What a run of the checker tells: a line while it works, a line a program, and the same as JSON.

#include <chrono>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/check/campaign.hpp"

namespace shmoe::apps {

/// On a terminal one line that is rewritten; elsewhere a line now and then.
class ProgressLine {
 public:
  ProgressLine();
  void operator()(std::string_view program, const runtime::check::Outcome& now);
  /// Before a result is printed.
  void clear();
  /// The next program: its time counts from here.
  void restart();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_;
  Clock::time_point last_;
};

/// The heads of the columns.
std::string header_text();
/// One line; a failure that was expected has its replay string below.
std::string to_text(const Row& row);
/// Of a row that is not good: the story, and how to see it again. `command`: "shmoe check".
std::string failure_text(const Row& row, const Campaign& campaign, std::string_view command);
/// How many programs did as expected, and what it means that nothing was found.
std::string summary_text(std::span<const Row> rows, const Campaign& campaign);

nlohmann::ordered_json to_json(std::span<const Row> rows, const Campaign& campaign, std::string_view command);

}  // namespace shmoe::apps
