#include "apps/check/story_json.hpp"

namespace shmoe::apps {
namespace {

using runtime::check::Step;

nlohmann::ordered_json step_json(const Step& step, const runtime::check::World& world) {
  const auto cores = static_cast<std::size_t>(world.shape().cores);
  nlohmann::ordered_json json{{"rank", step.core / cores}, {"core", step.core % cores}, {"kind", name_of(step.kind)},
                              {"file", step.site.file},    {"line", step.site.line},    {"owner", step.rank.value()}};
  switch (step.kind) {
    case Step::Kind::enter: json["op"] = step.op; break;
    case Step::Kind::put:
    case Step::Kind::get:
    case Step::Kind::put_landed:
      json["at"] = step.at.value();
      json["size"] = step.size.value();
      break;
    case Step::Kind::signal:
    case Step::Kind::signal_landed:
    case Step::Kind::wait:
    case Step::Kind::seen:
      json["slot"] = world.slots().describe(step.slot);
      json["value"] = step.value;
      break;
    case Step::Kind::fence:
    case Step::Kind::quiet: break;
  }
  return json;
}

}  // namespace

nlohmann::ordered_json story_json(const std::string& replay, const runtime::check::World& world,
                                  const runtime::check::Run& run) {
  nlohmann::ordered_json json{{"schema", 1},
                              {"replay", replay},
                              {"ranks", world.shape().ranks},
                              {"cores", world.shape().cores},
                              {"verdict", name_of(run.verdict.kind)},
                              {"text", run.verdict.clean() ? "" : to_string(run.verdict)}};
  json["steps"] = nlohmann::ordered_json::array();
  for (const Step& step : run.story) json["steps"].push_back(step_json(step, world));
  return json;
}

}  // namespace shmoe::apps
