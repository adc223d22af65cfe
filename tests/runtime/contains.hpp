#pragma once

#include <string>
#include <string_view>

namespace shmoe::runtime::test {

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace shmoe::runtime::test
