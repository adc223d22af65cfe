#pragma once
// What the targets share. A target is one LLVMFuzzerTestOneInput: libFuzzer calls it with inputs that it makes up,
// replay_main.cpp with those of the corpus.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "shmem/result.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace shmoe::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process where a property does not hold, as libFuzzer wants it.
inline void holds(bool property, std::string_view name, std::string_view seen, SourceSite site = SourceSite::here()) {
  if (property) return;
  fmt::print(stderr, "{}:{}: does not hold: {}\nseen: {}\n", site.file, site.line, name, seen);
  std::abort();
}

inline constexpr std::size_t kLongestRefusal = 700;

inline bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }

/// What a refusal owes its reader: one line that a terminal can show, not empty, not endless, and the place of the fault.
inline void is_told(const Error& error, std::string_view place, SourceSite site = SourceSite::here()) {
  const std::string& text = error.context;
  holds(error.code != Errc::ok, "a refusal has a code", text, site);
  holds(!text.empty() && text.size() <= kLongestRefusal, "a refusal is neither empty nor endless", text, site);
  holds(std::ranges::none_of(text, is_control), "a refusal is one printable line", text, site);
  holds(text.find(place) != std::string::npos, "a refusal names the place", text, site);
}

}  // namespace shmoe::fuzz
