// shmoe info: the machine, what started us, the settings, the memory map, the operators.

#include <memory>
#include <span>

#include <fmt/ranges.h>

#include "apps/shmoe/command.hpp"
#include "apps/shmoe/layout_view.hpp"
#include "apps/shmoe/machine.hpp"
#include "apps/shmoe/operators_view.hpp"
#include "bootstrap/launch.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "ops/registry.hpp"
#include "runtime/config.hpp"
#include "runtime/copy_choice.hpp"
#include "runtime/pinning.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kDescription =
    "Says what shmoe finds: the machine, what started this process, and every setting with its value.\n\n"
    "  shmoe info\n"
    "  shmoe info --layout --ranks 384 --cores 8       memory map of one communicator\n"
    "  shmoe info --ops                                every operator: variants, needs, limits\n"
    "  shmoe info --ops combine_normal --ranks 64      everything about one, with the memory of a call";

struct InfoOptions {
  bool layout = false;
  bool operators = false;
  std::string one_operator;  // none: all
  bool json = false;
  bool settings_markdown = false;
  std::int32_t ranks = 8;
  std::optional<std::int32_t> cores;
  std::optional<std::string> profile;
};

struct SettingValue {
  const runtime::Setting* setting;
  std::string value;
  bool is_set;
};

std::vector<SettingValue> current_settings() {
  std::vector<SettingValue> values;
  const auto environment = bootstrap::process_environment();
  for (const runtime::Setting& setting : runtime::settings()) {
    const auto value = environment(setting.variable);
    const bool secret = std::string_view{setting.variable} == "SHMOE_SECRET";
    values.push_back({&setting, value && secret ? "(hidden)" : value.value_or(setting.fallback), value.has_value()});
  }
  return values;
}

std::string settings_now() {
  std::string text;
  for (const SettingValue& value : current_settings()) {
    text += fmt::format("{:<26} {:<10} {}{}\n", value.setting->variable, value.value.empty() ? "-" : value.value,
                        value.setting->meaning, value.is_set ? " (set)" : "");
  }
  return text;
}

nlohmann::ordered_json settings_json() {
  auto json = nlohmann::ordered_json::object();
  for (const SettingValue& value : current_settings()) {
    json[value.setting->variable] = {{"value", value.value}, {"set", value.is_set}, {"takes", value.setting->takes}};
  }
  return json;
}

Result<shmem::BlockMap> map_of(const InfoOptions& options) {
  auto config = runtime::Config::load();
  if (!config) return std::move(config).error();
  if (options.profile) config->profile = *find_profile(*options.profile);
  const std::int32_t cores = options.cores.value_or(config->cores);
  return shmem::block_map(
      config->profile,
      {.ranks = options.ranks, .cores = cores, .slots = cores, .ipc_data = config->ipc_data, .heap = config->heap});
}

nlohmann::ordered_json copies_json(Bytes bytes, const shmem::CopyTimes& times) {
  nlohmann::ordered_json json{{"bytes", bytes.value()}, {"fastest", shmem::name_of(times.fastest())}};
  for (const shmem::CopyKind kind : shmem::kCopyKinds) {
    json["us"][std::string(shmem::name_of(kind))] = static_cast<double>(times.of(kind).count()) / 1e3;
  }
  return json;
}

nlohmann::ordered_json copies_json(const runtime::CopyMeasurement& measured) {
  const shmem::CopyPlan plan = runtime::copy_plan(measured, 1);
  return {{"kind", shmem::name_of(plan.kind)},
          {"near_bytes", plan.near_bytes},
          {"measured",
           {copies_json(measured.own_bytes, measured.own), copies_json(measured.shared_bytes, measured.shared)}}};
}

std::string copies_text(Bytes bytes, const shmem::CopyTimes& times) {
  std::string text = fmt::format("{} and their first read on another CPU:", human(bytes));
  for (const shmem::CopyKind kind : shmem::kCopyKinds) {
    text += fmt::format(" {} {} us", shmem::name_of(kind), times.of(kind).count() / 1000);
  }
  return text;
}

std::string copies_text(const runtime::CopyMeasurement& measured) {
  return fmt::format("copies       {}\n             {}\n             of one core: {}\n",
                     copies_text(measured.own_bytes, measured.own), copies_text(measured.shared_bytes, measured.shared),
                     runtime::to_text(runtime::copy_plan(measured, 1)));
}

std::string pinning_text() {
  const auto cpus = runtime::cpus_in_order();
  return cpus ? fmt::format("cores go to CPUs {} where SHMOE_PIN says so", fmt::join(*cpus, " "))
              : to_string(cpus.error());
}

std::string runtime_folder() {
  const auto folder = bootstrap::runtime_folder(bootstrap::process_environment(), "/tmp");
  return folder ? folder->native() : to_string(folder.error());
}

nlohmann::ordered_json operators_json(std::span<const runtime::Operator> entries, const runtime::CallShape& example) {
  nlohmann::ordered_json json{{"schema", 1}, {"command", "shmoe info --ops"}, {"example", to_json(example)}};
  json["operators"] = nlohmann::ordered_json::array();
  for (const runtime::Operator& entry : entries) json["operators"].push_back(to_json(entry, example));
  return json;
}

int info_of_operators(const InfoOptions& options) {
  const runtime::Registry registry = ops::all_operators();
  runtime::CallShape example{.ranks = options.ranks};
  example.cores = options.cores.value_or(example.cores);
  std::span<const runtime::Operator> entries = registry.operators();
  if (!options.one_operator.empty()) {
    const auto entry = registry.find(options.one_operator);
    if (!entry) return failed("shmoe info", entry.error());
    entries = {*entry, 1};
  }
  if (options.json) {
    fmt::print("{}\n", operators_json(entries, example).dump(2));
  } else if (options.one_operator.empty()) {
    fmt::print("{}", operators_table(registry));
  } else {
    fmt::print("{}", operator_text(entries.front(), example));
  }
  return 0;
}

int info(const InfoOptions& options) {
  if (options.operators) return info_of_operators(options);
  if (options.settings_markdown) {
    fmt::print("{}", runtime::settings_markdown());
    return 0;
  }
  const auto launch = bootstrap::detect_launch(bootstrap::process_environment());
  if (!launch) return failed("shmoe info", launch.error());
  const auto map = map_of(options);
  if (!map) return failed("shmoe info", map.error());
  if (options.json) {
    nlohmann::ordered_json json{{"schema", 1}, {"command", "shmoe info"}};
    json["machine"] = to_json(look_at_machine());
    json["copies"] = copies_json(runtime::measure_copies());
    const auto cpus = runtime::cpus_in_order();
    json["pin_order"] = cpus ? *cpus : std::vector<int>{};
    json["launch"] = {{"launcher", launch->launcher},
                      {"rank", launch->rank.value()},
                      {"size", launch->size},
                      {"job", launch->job_id},
                      {"found_by", launch->found_by}};
    json["runtime_folder"] = runtime_folder();
    json["settings"] = settings_json();
    if (options.layout) json["layout"] = to_json(*map);
    fmt::print("{}\n", json.dump(2));
  } else if (options.layout) {
    fmt::print("{}", to_text(*map));
  } else {
    fmt::print("{}{}pinning      {}\nlaunch       {}\nmeetings in  {}\n\n{}", to_text(look_at_machine()),
               copies_text(runtime::measure_copies()), pinning_text(), launch->description(), runtime_folder(),
               settings_now());
  }
  return 0;
}

}  // namespace

void add_info(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", kDescription);
  std::vector<std::string> profiles;
  for (const Profile& profile : kProfiles) profiles.emplace_back(name_of(profile.id));
  command->add_flag("--layout", options->layout, "the memory map of a communicator's block");
  CLI::Option* operators = command->add_option("--ops", options->one_operator, "the operators, or one with everything")
                               ->expected(0, 1)
                               ->type_name("[NAME]");
  command->add_flag("--json", options->json, "as one JSON object");
  command->add_flag("--settings-markdown", options->settings_markdown, "the table of settings in the README");
  command->add_option("--ranks", options->ranks, "ranks of the map, default 8; implies --layout, but for --ops")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("R");
  command->add_option("--cores", options->cores, "cores of the map, default SHMOE_CORES; likewise")
      ->check(CLI::Range(1, static_cast<int>(shmem::kMaxCores)).description(""))
      ->type_name("C");
  command->add_option("--profile", options->profile, "profile of the map, default SHMOE_PROFILE; likewise")
      ->check(CLI::IsMember(profiles).description(""))
      ->type_name("NAME");
  // What only the map has means the map.
  command->callback([options, operators, command, &invocation] {
    options->operators = operators->count() > 0;
    for (const char* of_map : {"--ranks", "--cores", "--profile"}) options->layout |= command->count(of_map) > 0;
    invocation.exit_code = info(*options);
  });
}

}  // namespace shmoe::apps
