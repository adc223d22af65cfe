#pragma once
// The first difference between what was expected and what was seen, as text; empty where there is none.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "shmem/result.hpp"

namespace shmoe::test {

template <class T>
std::string list_difference(const char* name, const std::vector<T>& expected, const std::vector<T>& seen) {
  if (expected.size() != seen.size()) {
    return fmt::format("{} has {} entries, expected {}", name, seen.size(), expected.size());
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != expected[i]) return fmt::format("{}[{}] is {}, expected {}", name, i, seen[i], expected[i]);
  }
  return {};
}

/// `row`: bytes of one.
inline std::string bytes_difference(const char* name, std::size_t row, std::span<const std::byte> expected,
                                    std::span<const std::byte> seen) {
  if (expected.size() != seen.size()) {
    return fmt::format("{} has {} bytes, expected {}", name, seen.size(), expected.size());
  }
  const auto at = std::mismatch(seen.begin(), seen.end(), expected.begin()).first - seen.begin();
  if (at == std::ssize(seen)) return {};
  const auto place = static_cast<std::size_t>(at);
  return fmt::format("{} differs in row {}, byte {}: {:#x}, expected {:#x}", name, place / row, place % row,
                     std::to_integer<int>(seen[place]), std::to_integer<int>(expected[place]));
}

inline std::string first_difference(std::span<const std::string> all) {
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  return first == all.end() ? std::string{} : *first;
}

/// As the end of a rank's part.
inline Result<void> no_difference(const std::string& text) {
  if (text.empty()) return {};
  return Error{.code = Errc::mismatch, .context = text};
}

}  // namespace shmoe::test
