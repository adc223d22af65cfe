#pragma once
// A schedule as text, to send to somebody else:  shmoe1:PROGRAM:r2c1n3:DEVIATIONS

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/check/strategy.hpp"
#include "shmem/result.hpp"

namespace shmoe::runtime::check {

/// Which program, in which world, on which schedule.
struct Recording {
  std::string program;
  std::string world;  // as the program's registry writes it
  Deviations deviations;
};

std::string to_text(const Recording& recording);
/// Errors:  invalid_argument: no recording, or one of another version
Result<Recording> parse_recording(std::string_view text);

}  // namespace shmoe::runtime::check
