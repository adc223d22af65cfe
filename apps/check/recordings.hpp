#pragma once
// What can be done with a replay string.

#include <string>

#include "apps/check/registry.hpp"
#include "runtime/check/world.hpp"

namespace shmoe::apps {

/// The text to print, and whether the schedule fails.
struct Replayed {
  std::string text;
  bool fails = false;
};

enum class Detail : std::uint8_t { verdict, story, json };

/// The verdict; the story is every step before it; JSON is both.
/// Errors:  as parse_recording and parse_setting; not_found: a program that is not here
Result<Replayed> replay_recording(Programs programs, std::string_view text, Detail detail);
/// A replay string with fewer choices that still gives this verdict.
/// Errors:  as replay_recording; invalid_argument: a schedule that does not fail
Result<Replayed> shrink_recording(Programs programs, std::string_view text);
/// The shortest story of the failure.
/// Errors:  as shrink_recording
Result<Replayed> explain_recording(Programs programs, std::string_view text);

}  // namespace shmoe::apps
