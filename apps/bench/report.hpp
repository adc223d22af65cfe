#pragma once
// What every benchmark says in the end: rows for programs (bench.schema.json), a table for people.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/shmoe/machine.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {

/// Nothing where there is no such figure. Medians over the blocks; ratio and share are medians of what each block says.
struct BenchRow {
  std::string name;
  std::int32_t ranks = 0;
  std::optional<double> ours_us = {};
  std::optional<double> peer_us = {};
  std::optional<double> ratio = {};        // peer over ours: above 1 ours is faster
  std::optional<double> limit_share = {};  // limit over ours: at 1 nothing is left to gain
  std::optional<double> value = {};        // by name, see the schema
  bool verified = false;
};

struct BenchReport {
  std::vector<BenchRow> rows;
  std::string text;

  [[nodiscard]] bool verified() const;
};

nlohmann::ordered_json to_json(const BenchReport& report, const std::string& command, const Machine& machine);

/// Where a report goes besides standard output: a file, or "-" for standard output in place of the table.
using JsonTarget = std::optional<std::string>;

/// Before anything is measured rather than behind it.
/// Errors:  invalid_argument where the file cannot be written
Result<void> check_writable(const JsonTarget& target);

/// Errors:  io
Result<void> write_report(const BenchReport& report, const std::string& command, const JsonTarget& target);

}  // namespace shmoe::apps
