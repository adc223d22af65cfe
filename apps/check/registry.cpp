#include "apps/check/registry.hpp"

#include <algorithm>
#include <numeric>

#include "bootstrap/text.hpp"

namespace shmoe::apps {
namespace {

using runtime::check::Program;

/// Letters to insert, drop or change.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string suggestion(Programs programs, std::string_view name) {
  const auto far = [name](const Program& program) { return distance(program.name, name); };
  const auto nearest = std::ranges::min_element(programs, {}, far);
  if (nearest == programs.end() || far(*nearest) > std::max<std::size_t>(2, name.size() / 2)) return "";
  return fmt::format("did you mean {}? ", nearest->name);
}

}  // namespace

Result<const Program*> find_program(Programs programs, std::string_view name) {
  const auto found = std::ranges::find(programs, name, &Program::name);
  if (found != programs.end()) return &*found;
  return Error{.code = Errc::not_found,
               .context = fmt::format("there is no program {}: {}\"list\" names those there are",
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
