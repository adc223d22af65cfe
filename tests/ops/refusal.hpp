#pragma once
// What a rank is told of a call that is refused.

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "shmem/result.hpp"

namespace shmoe::test {

inline void check_told(const Error& error, Errc code, std::string_view text) {
  CHECK_MESSAGE(error.code == code, to_string(error));
  CHECK_MESSAGE(error.context.find(text) != std::string::npos, to_string(error));
}

template <class T>
void check_told(const Result<T>& refused, Errc code, std::string_view text) {
  REQUIRE(!refused);
  check_told(refused.error(), code, text);
}

}  // namespace shmoe::test
