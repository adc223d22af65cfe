#include "apps/bench/report.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>

#include <fmt/format.h>

namespace shmoe::apps {
namespace {

constexpr int kSchema = 1;

nlohmann::ordered_json figure(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json to_json(const BenchRow& row) {
  return {{"name", row.name},
          {"ranks", row.ranks},
          {"ours_us", figure(row.ours_us)},
          {"peer_us", figure(row.peer_us)},
          {"ratio", figure(row.ratio)},
          {"limit_share", figure(row.limit_share)},
          {"value", figure(row.value)},
          {"verified", row.verified}};
}

}  // namespace

bool BenchReport::verified() const { return std::ranges::all_of(rows, &BenchRow::verified); }

nlohmann::ordered_json to_json(const BenchReport& report, const std::string& command, const Machine& machine) {
  nlohmann::ordered_json json;
  json["schema"] = kSchema;
  json["machine"] = to_json(machine);
  json["command"] = command;
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : report.rows) json["rows"].push_back(to_json(row));
  return json;
}

Result<void> check_writable(const JsonTarget& target) {
  if (!target || *target == "-" || std::ofstream{*target, std::ios::app}) return {};
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("cannot write {}: give --json a file that can be written", *target),
               .sys = errno};
}

Result<void> write_report(const BenchReport& report, const std::string& command, const JsonTarget& target) {
  if (target != "-") fmt::print("{}\n{}", command, report.text);
  if (!target) return {};
  const std::string json = to_json(report, command, look_at_machine()).dump(2) + '\n';
  if (*target == "-") {
    fmt::print("{}", json);
    return {};
  }
  std::ofstream out{*target};
  out << json << std::flush;
  if (out) return {};
  return Error{.code = Errc::io,
               .context = fmt::format("cannot write {}: give --json a file that can be written", *target),
               .sys = errno};
}

}  // namespace shmoe::apps
