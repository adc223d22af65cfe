#include "apps/shmoe/operators_view.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shmoe::apps {
namespace {

using runtime::CallShape;
using runtime::Limit;
using runtime::Operator;
using runtime::Range;
using runtime::Variant;
using runtime::WorkspaceSize;
using Lines = std::vector<std::string>;

constexpr std::array<std::size_t, 4> kWidths{22, 33, 33, 28};

std::string text_of(const Range& range) {
  if (range.most != Range::kAsMemoryGoes) return fmt::format("{} to {}", range.least, range.most);
  return range.least == 0 ? "any" : fmt::format("{} or more", range.least);
}

std::string text_of(const Limit& limit) {
  std::string text = fmt::format("{} {}", limit.of, text_of(limit.safe));
  if (limit.published && *limit.published != limit.safe) text += fmt::format(" ({})", text_of(*limit.published));
  return text;
}

constexpr std::string_view kMark = "*: in safe alone, refused in a faithful profile";

/// What a faithful profile refuses has a mark.
std::string text_of(const Variant& variant) {
  Lines choices;
  for (const std::string_view choice : variant.choices) {
    choices.push_back(fmt::format("{}{}", choice, std::ranges::count(variant.safe_alone, choice) != 0 ? "*" : ""));
  }
  return fmt::format("{}: {}", variant.of, fmt::join(choices, ", "));
}

Lines needs_of(const Operator& entry) {
  Lines lines{fmt::format("slots: {}", entry.needs.slots)};
  if (!entry.needs.symmetric.empty()) {
    lines.push_back(fmt::format("symmetric: {}", fmt::join(entry.needs.symmetric, "; ")));
  }
  if (!entry.needs.window.empty()) lines.push_back(fmt::format("window: {}", entry.needs.window));
  if (!entry.needs.before.empty()) lines.push_back(fmt::format("after: {}", fmt::join(entry.needs.before, ", ")));
  return lines;
}

template <class Item>
Lines lines_of(const std::vector<Item>& items) {
  Lines lines;
  for (const Item& item : items) lines.push_back(text_of(item));
  return lines;
}

Lines variant_lines(const Operator& entry) {
  Lines lines = lines_of(entry.variants);
  if (!std::ranges::all_of(entry.variants, &std::vector<std::string_view>::empty, &Variant::safe_alone)) {
    lines.emplace_back(kMark);
  }
  return lines;
}

/// Breaks at blanks; what comes after the first line of an item is moved in.
Lines wrapped(const Lines& items, std::size_t width) {
  Lines lines;
  for (const std::string& item : items) {
    std::string_view rest = item;
    std::string_view indent;
    while (indent.size() + rest.size() > width) {
      const auto blank = rest.rfind(' ', width - indent.size());
      if (blank == std::string_view::npos || blank == 0) break;
      lines.push_back(fmt::format("{}{}", indent, rest.substr(0, blank)));
      rest.remove_prefix(blank + 1);
      indent = "  ";
    }
    lines.push_back(fmt::format("{}{}", indent, rest));
  }
  return lines;
}

std::string row_text(const std::array<Lines, 4>& cells) {
  std::array<Lines, 4> columns;
  std::size_t height = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    columns[i] = wrapped(cells[i], kWidths[i]);
    height = std::max(height, columns[i].size());
  }
  std::string text;
  for (std::size_t line = 0; line < height; ++line) {
    std::string row;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      row += fmt::format("{:<{}} ", line < columns[i].size() ? columns[i][line] : "", kWidths[i]);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string section(std::string_view title, const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("  {:<11} {}\n", text.empty() ? title : "", line);
  return text;
}

Lines copied(const std::vector<std::string_view>& names) { return {names.begin(), names.end()}; }

std::string workspace_text(const Operator& entry, const CallShape& shape) {
  const WorkspaceSize size = entry.workspace(shape);
  return fmt::format("  {} bytes symmetric on every rank, {} bytes of its own on {}", size.symmetric, size.own,
                     entry.own_on);
}

Lines workspace_lines(const Operator& entry, CallShape shape) {
  Lines lines{fmt::format("R {}, C {}, E {}, K {}, T {}, H {}, {}:", shape.ranks, shape.cores, shape.experts,
                          shape.topk, shape.tokens, shape.hidden, name_of(shape.dtype)),
              workspace_text(entry, shape)};
  const WorkspaceSize plain = entry.workspace(shape);
  shape.int8_rows = true;
  if (entry.workspace(shape) != plain) {
    lines.emplace_back("with int8 rows:");
    lines.push_back(workspace_text(entry, shape));
  }
  lines.push_back(fmt::format("workspace_size(comm, args) says it of a call; then {}(comm, args)", entry.name));
  return lines;
}

Lines limit_lines(const Operator& entry) {
  Lines lines;
  for (const Limit& limit : entry.limits) {
    const std::string published = limit.published ? text_of(*limit.published) : "-";
    lines.push_back(fmt::format("{:<18} {:<18} {:<14} {}", limit.of, text_of(limit.safe), published, limit.besides));
    lines.back().erase(lines.back().find_last_not_of(' ') + 1);
  }
  lines.insert(lines.begin(), fmt::format("{:<18} {:<18} {}", "", "safe", "published host"));
  lines.push_back(fmt::format("a faithful profile enforces here {}",
                              entry.faithful_limits ? "what the published host does" : "what safe does"));
  return lines;
}

Lines names_with_faithful_limits(const runtime::Registry& registry) {
  Lines names;
  for (const Operator& entry : registry.operators()) {
    if (entry.faithful_limits) names.emplace_back(entry.name);
  }
  return names;
}

nlohmann::ordered_json to_json(const Range& range) {
  nlohmann::ordered_json json{{"least", range.least}, {"most", nullptr}};
  if (range.most != Range::kAsMemoryGoes) json["most"] = range.most;
  return json;
}

nlohmann::ordered_json to_json(const Limit& limit) {
  nlohmann::ordered_json json{{"of", limit.of}, {"safe", to_json(limit.safe)}, {"published", nullptr}};
  if (limit.published) json["published"] = to_json(*limit.published);
  json["besides"] = limit.besides;
  return json;
}

}  // namespace

std::string operators_table(const runtime::Registry& registry) {
  std::string text =
      row_text({Lines{"operator"}, Lines{"variants"}, Lines{"needs"}, Lines{"limits (published host)"}}) + '\n';
  for (const Operator& entry : registry.operators()) {
    text +=
        row_text({Lines{std::string(entry.name)}, lines_of(entry.variants), needs_of(entry), lines_of(entry.limits)});
    text += '\n';
  }
  text += fmt::format("{}\n(published host): what that one enforces; a faithful profile does so here in {}\n", kMark,
                      fmt::join(names_with_faithful_limits(registry), ", "));
  return text + "shmoe info --ops NAME: stages, what else limits depend on, the memory of a call\n";
}

std::string operator_text(const Operator& entry, const CallShape& example) {
  Lines stages = copied(entry.stages);
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].insert(0, fmt::format("{} ", i + 1));
  std::string text = fmt::format("{}: {}\n", entry.name, entry.does);
  text += section("header", {std::string(entry.header)});
  text += section("published", copied(entry.published));
  text += section("calls", copied(entry.calls));
  text += section("variants", variant_lines(entry));
  text += section("needs", needs_of(entry));
  text += section("stages", stages);
  text += section("limits", limit_lines(entry));
  return text + section("workspace", workspace_lines(entry, example));
}

nlohmann::ordered_json to_json(const CallShape& shape) {
  return {{"ranks", shape.ranks},          {"cores", shape.cores},
          {"experts", shape.experts},      {"topk", shape.topk},
          {"tokens", shape.tokens},        {"hidden", shape.hidden},
          {"dtype", name_of(shape.dtype)}, {"int8_rows", shape.int8_rows}};
}

nlohmann::ordered_json to_json(const Operator& entry, const CallShape& example) {
  nlohmann::ordered_json json{{"name", entry.name}, {"family", entry.family},       {"header", entry.header},
                              {"does", entry.does}, {"published", entry.published}, {"calls", entry.calls}};
  json["variants"] = nlohmann::ordered_json::object();
  json["safe_alone"] = nlohmann::ordered_json::object();
  for (const Variant& variant : entry.variants) {
    json["variants"][std::string(variant.of)] = variant.choices;
    if (!variant.safe_alone.empty()) json["safe_alone"][std::string(variant.of)] = variant.safe_alone;
  }
  json["needs"] = {{"slots", entry.needs.slots},
                   {"symmetric", entry.needs.symmetric},
                   {"window", entry.needs.window},
                   {"after", entry.needs.before}};
  json["stages"] = entry.stages;
  json["limits"] = nlohmann::ordered_json::array();
  for (const Limit& limit : entry.limits) json["limits"].push_back(to_json(limit));
  json["faithful_limits"] = entry.faithful_limits;
  const WorkspaceSize size = entry.workspace(example);
  json["workspace"] = {{"symmetric", size.symmetric.value()}, {"own", size.own.value()}, {"own_on", entry.own_on}};
  return json;
}

}  // namespace shmoe::apps
