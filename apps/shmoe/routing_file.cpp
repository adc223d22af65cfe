#include "apps/shmoe/routing_file.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace shmoe::apps {
namespace {

using nlohmann::json;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// A place in a file, for messages.
struct Place {
  const std::string& path;
  std::size_t line;

  [[nodiscard]] Error error(std::string_view what) const {
    return Error{Errc::invalid_argument, fmt::format("{}:{}: {}", path, line, what), {}};
  }
};

/// For messages: the start of what stands in the file, in printable characters.
std::string shown(std::string_view text, std::size_t longest = 40) {
  std::string safe;
  for (const char c : text.substr(0, longest)) {
    safe += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text.size() > longest ? safe + "..." : safe;
}

std::string shown_value(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return shown(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

std::vector<std::string_view> fields_of(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find('\t', first), text.size());
    fields.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return fields;
}

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if constexpr (std::is_same_v<Number, float>) {
    if (error == std::errc::result_out_of_range) number = std::strtof(std::string{text}.c_str(), nullptr);  // 0 or inf
    return error != std::errc::invalid_argument && stopped == end;
  }
  return error == std::errc{} && stopped == end;
}

Result<void> check_id(std::int64_t id, std::int64_t lowest, const RoutingRules& rules, const Place& place) {
  if (id >= lowest && id < rules.experts) return {};
  return place.error(fmt::format("expert {} is not one of {} experts (0 to {}): give more with --experts", id,
                                 rules.experts, rules.experts - 1));
}

Result<void> parse_ids(std::string_view text, const RoutingRules& rules, const Place& place, Batch& batch) {
  for (const std::string_view field : fields_of(text)) {
    std::int64_t id = 0;
    if (!parse_whole(field, id)) {
      return place.error(
          fmt::format("field {} is '{}', which is no expert id", batch.topk_ids.size() + 1, shown(field)));
    }
    if (auto checked = check_id(id, 0, rules, place); !checked) return checked;
    batch.topk_ids.push_back(id);
  }
  return {};
}

Result<void> parse_weights(std::string_view text, const Place& place, Batch& batch) {
  for (const std::string_view field : fields_of(text)) {
    float weight = 0;
    if (!parse_whole(field, weight) || !std::isfinite(weight)) {
      return place.error(
          fmt::format("weight {} is '{}', which is no finite number", batch.weights.size() + 1, shown(field)));
    }
    batch.weights.push_back(weight);
  }
  return {};
}

Result<Batch> parse_tabbed(std::string_view line, const RoutingRules& rules, const Place& place) {
  const std::size_t gap = line.find("\t\t");
  if (gap == std::string_view::npos)
    return place.error("no two tabs between ids and weights: put one between two numbers of a kind, or write JSON");
  Batch batch;
  if (auto ids = parse_ids(line.substr(0, gap), rules, place, batch); !ids) return ids.error();
  if (auto weights = parse_weights(line.substr(gap + 2), place, batch); !weights) return weights.error();
  if (batch.weights.size() != batch.topk_ids.size()) {
    return place.error(fmt::format("{} ids but {} weights", batch.topk_ids.size(), batch.weights.size()));
  }
  const auto topk = static_cast<std::size_t>(rules.topk);
  if (batch.topk_ids.size() % topk != 0) {
    return place.error(
        fmt::format("{} ids are no multiple of {} a token: give another --topk", batch.topk_ids.size(), topk));
  }
  batch.tokens = static_cast<std::int64_t>(batch.topk_ids.size() / topk);
  return batch;
}

/// Appends the numbers of a list of equally long lists.
template <class Number, class Check>
Result<void> parse_matrix(const json& matrix, const char* name, std::size_t& columns, const Place& place,
                          const Check& check, std::vector<Number>& numbers) {
  if (!matrix.is_array()) return place.error(fmt::format("{} is no list of lists", name));
  for (const json& row : matrix) {
    if (!row.is_array() || row.empty()) return place.error(fmt::format("{} is no list of lists of numbers", name));
    if (columns == 0) columns = row.size();
    if (row.size() != columns) {
      return place.error(fmt::format("{} has a row of {} beside rows of {}", name, row.size(), columns));
    }
    for (const json& value : row) {
      if (auto checked = check(value); !checked) return checked;
      numbers.push_back(value.get<Number>());
    }
  }
  return {};
}

/// The parser's message without its own name and line, of which there is one: "column 9: syntax error while ...", and
/// not all of a long token in it.
std::string reason_of(const json::exception& error) {
  const std::string_view what = error.what();
  for (const std::string_view mark : {"column ", "] "}) {
    if (const std::size_t at = what.find(mark); at != std::string_view::npos) {
      return std::string{what.substr(mark == "] " ? at + mark.size() : at)};
    }
  }
  return std::string{what};
}

Result<json> parse_object(std::string_view line, const Place& place) {
  try {
    std::string fault;
    std::set<std::string> keys;
    // What lies deeper than rows of numbers is left out, and never built.
    json object = json::parse(line, [&](int depth, json::parse_event_t event, const json& parsed) {
      using Event = json::parse_event_t;
      const bool opens = event == Event::object_start || event == Event::array_start;
      if (opens && depth > 2) fault = "nested deeper than a list of lists";
      if (event == Event::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second)
        fault = fmt::format("\"{}\" stands there twice", shown(parsed.get<std::string>()));
      return !opens || depth <= 2;
    });
    if (!fault.empty()) return place.error(fault);
    return object;
  } catch (const json::exception& error) {
    return place.error(fmt::format("no JSON object: {}", shown(reason_of(error), 160)));
  }
}

Result<Batch> parse_json(std::string_view line, const RoutingRules& rules, const Place& place, std::int32_t& topk) {
  const Result<json> parsed = parse_object(line, place);
  if (!parsed) return parsed.error();
  const json& object = *parsed;
  for (const auto& [key, value] : object.items()) {
    if (key == "topk_ids" || key == "topk_weights") continue;
    return place.error(fmt::format("\"{}\" is no key here; \"topk_ids\" and \"topk_weights\" are", shown(key)));
  }
  if (!object.contains("topk_ids")) return place.error("no \"topk_ids\"");
  auto columns = static_cast<std::size_t>(topk);
  Batch batch;
  const auto check_expert = [&](const json& value) -> Result<void> {
    if (!value.is_number_integer() || value.get<double>() > 1e9)
      return place.error(fmt::format("topk_ids has {}, which is no expert id", shown_value(value)));
    return check_id(value.get<std::int64_t>(), -1, rules, place);
  };
  if (auto ids = parse_matrix(object["topk_ids"], "topk_ids", columns, place, check_expert, batch.topk_ids); !ids) {
    return ids.error();
  }
  const auto check_weight = [&](const json& value) -> Result<void> {
    if (value.is_number() && std::isfinite(value.get<float>())) return {};
    return place.error(fmt::format("topk_weights has {}, which is no finite number", shown_value(value)));
  };
  if (object.contains("topk_weights")) {
    auto weights = parse_matrix(object["topk_weights"], "topk_weights", columns, place, check_weight, batch.weights);
    if (!weights) return weights.error();
    if (batch.weights.size() != batch.topk_ids.size()) {
      return place.error(fmt::format("{} ids but {} weights", batch.topk_ids.size(), batch.weights.size()));
    }
  }
  topk = static_cast<std::int32_t>(columns);
  batch.tokens = columns == 0 ? 0 : static_cast<std::int64_t>(batch.topk_ids.size() / columns);
  return batch;
}

}  // namespace

Result<RoutingFile> read_routing(std::istream& in, const std::string& path, const RoutingRules& rules) {
  RoutingFile file{path, rules.topk_given ? rules.topk : 0, {}};
  std::string line;
  std::size_t blank = 0;  // the first empty line; only empty ones may follow
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const Place place{path, number};
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) {
      if (blank == 0) blank = number;
      continue;
    }
    if (blank != 0) {
      return Place{path, blank}.error("empty; a batch without tokens is written {\"topk_ids\": []}");
    }
    const bool is_json = line.front() == '{';
    if (!is_json && file.topk == 0) file.topk = rules.topk;
    if (!is_json && file.topk != rules.topk)
      return place.error(fmt::format("top {} after lines of top {}", rules.topk, file.topk));
    auto batch = is_json ? parse_json(line, rules, place, file.topk) : parse_tabbed(line, rules, place);
    if (!batch) return batch.error();
    file.batches.push_back(*std::move(batch));
  }
  if (file.batches.empty()) return Place{path, 1}.error("no batch");
  if (file.topk == 0) return Place{path, 1}.error("no batch of the file has a token");
  return file;
}

Result<RoutingFile> read_routing_file(const std::string& path, const RoutingRules& rules) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return Error{Errc::invalid_argument,
                 fmt::format("{} is not a regular file, and every rank reads the routing: save it to a file", path),
                 {}};
  }
  std::ifstream in{path};
  if (!in)
    return Error{Errc::not_found, fmt::format("cannot read routing from {}: give --routing a file", path), {}, errno};
  return read_routing(in, path, rules);
}

}  // namespace shmoe::apps
