#pragma once
// A protocol that can be checked: a name, and a body for a world of a given size. `shmoe check` runs those of the project;
// a program with protocols of its own hands them to apps/check/command.hpp and has the same command.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/check/world.hpp"

namespace shmoe::runtime::check {

inline constexpr std::int32_t kMostRounds = 1000;

/// How large, and how.
struct Setting {
  std::int32_t ranks = 2;
  std::int32_t cores = 1;
  std::int32_t rounds = 3;
  Profile profile = kSafe;
  bool views = true;
  bool weak = true;
  std::uint64_t first_round = 0;
  bool operator==(const Setting&) const = default;
};

/// "r2c1n3", then where they are not the usual ones "-faithful-2026-07", "-noviews", "-strong", "-from4294967294".
std::string to_text(const Setting& setting);
/// Errors:  invalid_argument: no such text
Result<Setting> parse_setting(std::string_view text);

struct Program {
  std::string name;  // letters, digits, '_' and '.'
  std::string what;  // one line for the list
  /// What the body needs beside the sizes; may be empty.
  std::function<void(const Setting&, Shape&)> shape = {};
  /// Makes the body. It runs once for every rank and every schedule, so what it captures stays as it is.
  std::function<Body(const Setting&)> make = {};
  /// What a run of it ends with; a program that is there to fail says how.
  VerdictKind expected = VerdictKind::clean;
  /// The world of "run all".
  Setting usual = {};
};

/// The shape of a program's world.
Shape shape_of(const Program& program, const Setting& setting);

}  // namespace shmoe::runtime::check
