#pragma once
// Messages of the command line: one line on stderr, written whole; and plurals.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace shmoe::apps {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  const std::string line = fmt::format(text, std::forward<Args>(args)...) + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

/// "1 step", "2 steps"
inline std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace shmoe::apps
