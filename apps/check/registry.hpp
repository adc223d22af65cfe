#pragma once
// Programs by name.

#include <span>
#include <string_view>
#include <vector>

#include "runtime/check/program.hpp"

namespace shmoe::apps {

/// Larger worlds take memory and show nothing that a small one does not.
inline constexpr std::int32_t kMostRanks = 64;

using Programs = std::span<const runtime::check::Program>;

/// Errors:  not_found, with the nearest name there is
Result<const runtime::check::Program*> find_program(Programs programs, std::string_view name);

/// In the order given; "all" stands for all of them.
/// Errors:  as find_program
Result<std::vector<const runtime::check::Program*>> select_programs(Programs programs,
                                                                    std::span<const std::string> names);

}  // namespace shmoe::apps
