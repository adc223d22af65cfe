#include "bootstrap/text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "shmem/hash.hpp"

namespace shmoe::bootstrap {
namespace {

constexpr std::size_t kMaxNamePart = 64;
constexpr std::size_t kMaxQuoted = 80;
constexpr int kMaxNamedRuns = 10;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

}  // namespace

std::string file_name_of(std::string_view id) {
  std::string name(id.substr(0, kMaxNamePart));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_name_character(c); }, '_');
  if (name == id) return name;
  return fmt::format("{}-{:016x}", name, shmem::fnv1a(id));
}

std::string name_ranks(const std::vector<std::int32_t>& ranks) {
  std::string text;
  int runs = 0;
  std::size_t i = 0;
  while (i < ranks.size() && runs < kMaxNamedRuns) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (runs > 0) text += ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    ++runs;
    i = last + 1;
  }
  if (i < ranks.size()) text += fmt::format(" and {} more", ranks.size() - i);
  return text;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }

std::string printable(std::string_view text) {
  std::string shown(text);
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return shown;
}

std::string quoted(std::string_view text) {
  return fmt::format("'{}{}'", printable(text.substr(0, kMaxQuoted)), text.size() > kMaxQuoted ? "..." : "");
}

}  // namespace shmoe::bootstrap
