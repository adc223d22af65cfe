#pragma once
// A run as JSON, for viewers: apps/shmoe/story.schema.json.

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/check/world.hpp"

namespace shmoe::apps {

nlohmann::ordered_json story_json(const std::string& replay, const runtime::check::World& world,
                                  const runtime::check::Run& run);

}  // namespace shmoe::apps
