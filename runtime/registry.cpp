#include "runtime/registry.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "bootstrap/text.hpp"

namespace shmoe::runtime {

namespace {

bool answers_to(const Operator& entry, std::string_view name) {
  const auto has = [&](const std::vector<std::string_view>& names) { return std::ranges::count(names, name) > 0; };
  return entry.name == name || has(entry.calls) || has(entry.published);
}

}  // namespace

void Registry::add(Operator entry) {
  SHMOE_EXPECTS(!find(entry.name), "operator {} is registered twice", entry.name);
  operators_.push_back(std::move(entry));
}

Result<const Operator*> Registry::find(std::string_view name) const {
  const auto found = std::ranges::find_if(operators_, [&](const Operator& entry) { return answers_to(entry, name); });
  if (found != operators_.end()) return &*found;
  std::string names;
  for (const Operator& entry : operators_) names += fmt::format(" {}", entry.name);
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("there is no operator {}; there are:{}", bootstrap::quoted(name), names)};
}

}  // namespace shmoe::runtime
