#include "apps/check/nearest_name.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace shmoe::apps {
namespace {

/// Letters to insert, drop or change.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest_name(std::span<const std::string> names, std::string_view word) {
  const auto far = [word](const std::string& name) { return distance(name, word); };
  const auto nearest = std::ranges::min_element(names, {}, far);
  if (nearest == names.end() || far(*nearest) > std::max<std::size_t>(2, word.size() / 2)) return std::nullopt;
  return *nearest;
}

}  // namespace shmoe::apps
