#pragma once
// The name that somebody may have meant.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shmoe::apps {

/// The one of `names` with the fewest letters to insert, drop or change; nothing if that is half of `word` or more.
std::optional<std::string> nearest_name(std::span<const std::string> names, std::string_view word);

}  // namespace shmoe::apps
