#pragma once
// The memory map of a communicator's block, for people and for programs.

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "shmem/layout.hpp"

namespace shmoe::apps {

/// Names of the regions that share bytes; none in the safe profile.
std::vector<std::pair<std::string, std::string>> overlaps(const shmem::BlockMap& map);

std::string to_text(const shmem::BlockMap& map);
nlohmann::ordered_json to_json(const shmem::BlockMap& map);

}  // namespace shmoe::apps
