#include "runtime/diagnosis/verdict_json.hpp"

#include <cerrno>
#include <fstream>

#include <nlohmann/json.hpp>

namespace shmoe::runtime {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Cause& cause) {
  Json json{{"cause", name_of(cause.kind)}, {"because", cause.because}, {"advice", advice_on(cause.kind)}};
  for (const auto& [rank, magic, cores] : cause.histogram) {
    json["histogram"].push_back({{"rank", rank.value()}, {"magic", magic}, {"cores", cores}});
  }
  return json;
}

Json json_of(const StuckWait& wait) {
  Json writers = Json::array();
  for (const Rank writer : wait.writers) writers.push_back(writer.value());
  return {{"rank", wait.rank.value()},     {"core", wait.core.value()}, {"op", wait.op},
          {"round", wait.round.value()},   {"waits_for", wait.what},    {"site", wait.site},
          {"writers", std::move(writers)}, {"written", wait.written},   {"communicator", wait.scope}};
}

}  // namespace

std::string to_json(const Verdict& verdict) {
  Json json{{"schema", 1}, {"verdict", name_of(verdict.kind)}, {"text", verdict.text}};
  if (verdict.after) json["proven_after_ms"] = std::chrono::duration<double, std::milli>(*verdict.after).count();
  json["causes"] = Json::array();
  for (const Cause& cause : verdict.causes) json["causes"].push_back(json_of(cause));
  json["stuck"] = Json::array();
  for (const StuckWait& wait : verdict.stuck) json["stuck"].push_back(json_of(wait));
  return json.dump(2) + '\n';
}

Result<void> write_json(const Verdict& verdict, const std::string& file) {
  std::ofstream out{file};
  out << to_json(verdict) << std::flush;
  if (out) return {};
  return Error{
      .code = Errc::io,
      .context = fmt::format("cannot write the verdict to {}: give SHMOE_VERDICT a file that can be written", file),
      .sys = errno};
}

}  // namespace shmoe::runtime
