#include "runtime/unknown_settings.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "bootstrap/text.hpp"
#include "runtime/config.hpp"

namespace shmoe::runtime {
namespace {

/// Changes that a slip makes, at most; SHMOE_WAIT_LIMIT for SHMOE_WAIT_LIMIT_MS is one.
constexpr std::size_t kNear = 3;

/// How many characters one must insert, remove or replace to make one of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // of a's first i characters to b's first j
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

bool is_setting(std::string_view name) {
  return std::ranges::any_of(settings(), [name](const Setting& setting) { return name == setting.variable; });
}

}  // namespace

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::optional<std::string> unknown_settings(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) {
    if (!name.starts_with("SHMOE_") || name.starts_with("SHMOE_TEST_") || is_setting(name)) continue;
    const Setting& nearest = *std::ranges::min_element(
        settings(), {}, [&name](const Setting& setting) { return distance(name, setting.variable); });
    const std::string advice = distance(name, nearest.variable) <= kNear
                                   ? fmt::format("did you mean {}?", nearest.variable)
                                   : std::string{"`shmoe info` shows them all."};
    text += fmt::format("{}{} is no setting: {}", text.empty() ? "" : " ", bootstrap::printable(name), advice);
  }
  return text.empty() ? std::nullopt : std::optional{text};
}

}  // namespace shmoe::runtime
