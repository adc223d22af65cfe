#pragma once
// Small text helpers of the bootstrap: strict numbers, safe names, short lists of ranks.

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shmoe::bootstrap {

/// The whole of `text` as a decimal number; nothing before it, nothing after it, no '+', no 0x.
template <std::integral T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

/// `id` as a part of a file name. Ids that had to be changed or cut get a hash, so that two ids never share a name.
std::string file_name_of(std::string_view id);

/// "2, 5-7, 11 and 30 more": at most ten ranks or runs of ranks are named. `ranks` ascending.
std::string name_ranks(const std::vector<std::int32_t>& ranks);

/// Whether a terminal would do something else with it than show it.
bool is_control(char c);
/// With a '?' for each control character.
std::string printable(std::string_view text);
/// Quoted, printable, and short enough for a one-line message.
std::string quoted(std::string_view text);

}  // namespace shmoe::bootstrap
