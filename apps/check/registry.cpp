#include "apps/check/registry.hpp"

#include <algorithm>

#include "apps/check/nearest_name.hpp"
#include "bootstrap/text.hpp"

namespace shmoe::apps {
namespace {

using runtime::check::Program;

std::string suggestion(Programs programs, std::string_view name) {
  std::vector<std::string> names;
  for (const Program& program : programs) names.push_back(program.name);
  const auto nearest = nearest_name(names, name);
  return nearest ? fmt::format("did you mean {}? ", *nearest) : "";
}

}  // namespace

Result<const Program*> find_program(Programs programs, std::string_view name) {
  const auto found = std::ranges::find(programs, name, &Program::name);
  if (found != programs.end()) return &*found;
  return Error{.code = Errc::not_found,
               .context = fmt::format("there is no program {}: {}`check list` names those there are",
                                      bootstrap::quoted(name), suggestion(programs, name))};
}

Result<std::vector<const Program*>> select_programs(Programs programs, std::span<const std::string> names) {
  std::vector<const Program*> selected;
  for (const std::string& name : names) {
    if (name == "all") {
      selected.clear();
      for (const Program& program : programs) selected.push_back(&program);
      return selected;
    }
    auto program = find_program(programs, name);
    if (!program) return std::move(program).error();
    selected.push_back(*program);
  }
  return selected;
}

}  // namespace shmoe::apps
