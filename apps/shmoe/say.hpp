#pragma once
// Messages of the command line: one line on stderr, written whole.

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace shmoe::apps {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  const std::string line = fmt::format(text, std::forward<Args>(args)...) + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace shmoe::apps
