// What a user says in the environment and on the command line: lines of NAME=VALUE, as `env` prints them. Each value is
// also taken for that of an option.

#include <map>

#include "apps/shmoe/command.hpp"
#include "bootstrap/launch.hpp"
#include "fuzz/target.hpp"
#include "runtime/config.hpp"
#include "runtime/registry.hpp"
#include "runtime/running_jobs.hpp"
#include "runtime/unknown_settings.hpp"

namespace shmoe::fuzz {
namespace {

using runtime::Config;

using Variables = std::map<std::string, std::string, std::less<>>;

Variables variables_in(std::string_view text) {
  Variables found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t sign = line.find('=');
    if (sign != std::string_view::npos) found[std::string(line.substr(0, sign))] = line.substr(sign + 1);
  }
  for (const char* name : {"SHMOE_FAULTS", "SHMOE_LINKS"}) found.erase(name);  // files, see plans.cpp
  return found;
}

Config::Lookup lookup_in(const Variables& variables) {
  return [&variables](std::string_view name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
}

const char* on_or_off(bool on) { return on ? "on" : "off"; }

/// As a user would write it down.
Variables written(const Config& config) {
  return {{"SHMOE_CORES", fmt::to_string(config.cores)},
          {"SHMOE_PROFILE", std::string(name_of(config.profile.id))},
          {"SHMOE_HEAP", fmt::to_string(config.heap.value())},
          {"SHMOE_BUFFSIZE", fmt::to_string(config.ipc_data.value() >> 20U)},
          {"SHMOE_COMMUNICATORS", fmt::to_string(config.communicators)},
          {"SHMOE_GENERATION", fmt::to_string(config.generation)},
          {"SHMOE_BOOTSTRAP_TIMEOUT_S", fmt::to_string(config.bootstrap_timeout.count() / 1000)},
          {"SHMOE_WAIT_LIMIT_MS", fmt::to_string(config.wait_limit.count())},
          {"SHMOE_VIEWS", on_or_off(config.views)},
          {"SHMOE_COPY", config.copy ? std::string(name_of(*config.copy)) : "auto"},
          {"SHMOE_PIN", config.pin == runtime::Pin::cores ? "cores" : "none"},
          {"SHMOE_WEAK", fmt::to_string(config.weak_seed)},
          {"SHMOE_STRICT", on_or_off(config.strict)},
          {"SHMOE_PROVE", on_or_off(config.prove)},
          {"SHMOE_LOG", config.log_level}};
}

bool is_in_bounds(const Config& config) {
  return config.cores >= 1 && config.cores <= 48 && config.heap.value() >= 65536 &&
         config.heap.value() <= std::uint64_t{16} << 40U && config.ipc_data.value() <= std::uint64_t{1} << 40U &&
         config.communicators >= 1 && config.communicators <= Config::kMostCommunicators && config.generation >= 0 &&
         config.generation <= 1'000'000 && config.bootstrap_timeout.count() >= 1000 &&
         config.bootstrap_timeout.count() <= 86'400'000 && config.wait_limit.count() >= 0 &&
         config.wait_limit.count() <= 86'400'000;
}

void check_config(const Variables& variables, std::string_view text) {
  const auto config = Config::load(lookup_in(variables));
  if (!config) {
    const std::string& said = config.error().context;
    holds(variables.contains(said.substr(0, said.find(' '))), "a refusal begins with the variable", said);
    return is_told(config.error(), "takes");
  }
  holds(is_in_bounds(*config), "settings are what the table says", text);
  const Variables again = written(*config);
  const auto reloaded = Config::load(lookup_in(again));
  holds(reloaded && written(*reloaded) == again, "settings are loaded again to the same", text);
}

void check_launch(const Variables& variables, std::string_view text) {
  const auto launch = bootstrap::detect_launch(lookup_in(variables));
  if (!launch) return is_told(launch.error(), "");
  holds(launch->size >= 1 && launch->size <= bootstrap::kMaxSize && launch->rank.value() >= 0 &&
            launch->rank.value() < launch->size && !launch->job_id.empty(),
        "a rank is one of its job", text);
  holds(std::ranges::none_of(launch->description(), is_control), "a launch is told in one line", text);
}

void check_names(const Variables& variables, std::string_view text) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  const auto told = runtime::unknown_settings(names);
  holds(!told || std::ranges::none_of(*told, is_control), "unknown settings are told in one line", text);
}

template <class Number>
void check_option(const std::string& value, Number lowest, Number highest) {
  if (!apps::within(lowest, highest)(value).empty()) return;
  Number number{};
  std::from_chars(value.data(), value.data() + value.size(), number);
  holds(number >= lowest && number <= highest, "an option lies in its limits", value);
}

void check_value(const std::string& value) {
  check_option<std::int32_t>(value, 1, 1000);
  check_option<std::uint64_t>(value, 0, std::numeric_limits<std::uint64_t>::max());
  check_option<double>(value, 0.001, 86'400);
  const auto op = runtime::Registry{}.find(value);
  if (!op) is_told(op.error(), "there is no operator");
  const auto job = runtime::choose_job({}, value);
  if (!job) is_told(job.error(), "");
}

}  // namespace
}  // namespace shmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shmoe::fuzz;
  const std::string_view text = text_of(data, size);
  const Variables variables = variables_in(text);
  check_config(variables, text);
  check_launch(variables, text);
  check_names(variables, text);
  for (const auto& [name, value] : variables) check_value(value);
  return 0;
}
