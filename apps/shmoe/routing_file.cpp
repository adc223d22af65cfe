#include "apps/shmoe/routing_file.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>

#include <nlohmann/json.hpp>

namespace shmoe::apps {
namespace {

using nlohmann::json;

/// A place in a file, for messages.
struct Place {
  const std::string& path;
  std::size_t line;

  [[nodiscard]] Error error(std::string_view what) const {
    return Error{Errc::invalid_argument, fmt::format("{}:{}: {}", path, line, what), {}};
  }
};

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
      return place.error(fmt::format("field {} is '{}', which is no expert id", batch.topk_ids.size() + 1, field));
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
      return place.error(fmt::format("weight {} is '{}', which is no finite number", batch.weights.size() + 1, field));
    }
    batch.weights.push_back(weight);
  }
  return {};
}

Result<Batch> parse_tabbed(std::string_view line, const RoutingRules& rules, const Place& place) {
  const std::size_t gap = line.find("\t\t");
  if (gap == std::string_view::npos) return place.error("no two tabs between ids and weights");
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

/// The parser's message without its own name and line, of which there is one: "column 9: syntax error while ...".
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
    return json::parse(line);
  } catch (const json::exception& error) {
    return place.error(fmt::format("no JSON object: {}", reason_of(error)));
  }
}

Result<Batch> parse_json(std::string_view line, const RoutingRules& rules, const Place& place, std::int32_t& topk) {
  const Result<json> parsed = parse_object(line, place);
  if (!parsed) return parsed.error();
  const json& object = *parsed;
  for (const auto& [key, value] : object.items()) {
    if (key == "topk_ids" || key == "topk_weights") continue;
    return place.error(fmt::format("\"{}\" is no key here; \"topk_ids\" and \"topk_weights\" are", key));
  }
  if (!object.contains("topk_ids")) return place.error("no \"topk_ids\"");
  auto columns = static_cast<std::size_t>(topk);
  Batch batch;
  const auto check_expert = [&](const json& value) -> Result<void> {
    if (!value.is_number_integer() || value.get<double>() > 1e9)
      return place.error(fmt::format("topk_ids has {}, which is no expert id", value.dump()));
    return check_id(value.get<std::int64_t>(), -1, rules, place);
  };
  if (auto ids = parse_matrix(object["topk_ids"], "topk_ids", columns, place, check_expert, batch.topk_ids); !ids) {
    return ids.error();
  }
  const auto check_weight = [&](const json& value) -> Result<void> {
    if (value.is_number() && std::isfinite(value.get<float>())) return {};
    return place.error(fmt::format("topk_weights has {}, which is no finite number", value.dump()));
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
  std::ifstream in{path};
  if (!in) return Error{Errc::not_found, fmt::format("cannot read routing from {}", path), {}, errno};
  return read_routing(in, path, rules);
}

}  // namespace shmoe::apps
