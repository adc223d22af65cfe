#pragma once
// The registered operators, for people and for programs.

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/registry.hpp"

namespace shmoe::apps {

/// A row for each.
std::string operators_table(const runtime::Registry& registry);
/// Everything about one, with the sizes of a call of that shape.
std::string operator_text(const runtime::Operator& entry, const runtime::CallShape& example);
nlohmann::ordered_json to_json(const runtime::Operator& entry, const runtime::CallShape& example);
nlohmann::ordered_json to_json(const runtime::CallShape& shape);

}  // namespace shmoe::apps
