#pragma once
// A setting with a misspelt name has no effect, and nobody would notice.

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shmoe::runtime {

/// Of every variable of this process.
std::vector<std::string> environment_names();

/// "SHMOE_CORE is no setting: did you mean SHMOE_CORES?" for all of `names` that start with SHMOE_ and are none, in one
/// line; nothing where there is none. SHMOE_TEST_ is left to tests.
std::optional<std::string> unknown_settings(std::span<const std::string> names);

}  // namespace shmoe::runtime
