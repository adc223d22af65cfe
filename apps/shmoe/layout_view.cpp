#include "apps/shmoe/layout_view.hpp"

#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "apps/shmoe/machine.hpp"
#include "apps/shmoe/say.hpp"

namespace shmoe::apps {
namespace {

/// What a name does not say.
std::string_view use_of(std::string_view region) {
  if (region == "low-latency region") return "slots and counts of the low-latency operators";
  if (region == "ipc flags") return "as published; our flags lie in slots";
  if (region == "ipc data") return "window of the published detours; in safe the window lies in the heap";
  return {};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> overlaps(const shmem::BlockMap& map) {
  std::vector<std::pair<std::string, std::string>> found;
  const auto regions = map.regions();
  for (std::size_t a = 0; a < regions.size(); ++a) {
    for (std::size_t b = a + 1; b < regions.size(); ++b) {
      if (regions[a].region.overlaps(regions[b].region)) found.emplace_back(regions[a].name, regions[b].name);
    }
  }
  return found;
}

std::string to_text(const shmem::BlockMap& map) {
  std::string text = fmt::format("block of a communicator: {}, {}, {} from each rank, {}\n",
                                 counted(map.shape.ranks, "rank"), counted(map.shape.cores, "core"),
                                 counted(map.shape.slots, "flag"), counted(map.shape.experts, "expert"));
  text += fmt::format("{:<20} {:>14} {:>14}  {}\n", "region", "from", "to", "size");
  for (const auto& [name, region] : map.regions()) {
    const std::string_view use = use_of(name);
    text += fmt::format("{:<20} {:>#14x} {:>#14x}  {}{}{}\n", name, region.at.value(), region.end().value(),
                        human(region.size), use.empty() ? "" : ": ", use);
  }
  text += fmt::format("{:<20} {:>14} {:>#14x}  {}\n", "whole block", "", map.size.value(), human(map.size));
  const auto shared = overlaps(map);
  if (shared.empty()) text += "no two regions overlap\n";
  for (const auto& [a, b] : shared) text += fmt::format("{} overlaps {}, as published\n", a, b);
  return text;
}

nlohmann::ordered_json to_json(const shmem::BlockMap& map) {
  nlohmann::ordered_json json;
  json["ranks"] = map.shape.ranks;
  json["cores"] = map.shape.cores;
  json["bytes"] = map.size.value();
  json["regions"] = nlohmann::ordered_json::array();
  for (const auto& [name, region] : map.regions()) {
    json["regions"].push_back({{"name", name}, {"offset", region.at.value()}, {"bytes", region.size.value()}});
  }
  json["overlaps"] = nlohmann::ordered_json::array();
  for (const auto& [a, b] : overlaps(map)) json["overlaps"].push_back({a, b});
  return json;
}

}  // namespace shmoe::apps
