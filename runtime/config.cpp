#include "runtime/config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "shmem/layout.hpp"

namespace shmoe::runtime {
namespace {

using shmem::kKiB;
using shmem::kMiB;

/// The whole text as a decimal number within [lowest, highest].
std::optional<std::uint64_t> number(std::string_view text, std::uint64_t lowest, std::uint64_t highest) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end || value < lowest || value > highest) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> byte_count(std::string_view text, std::uint64_t lowest, std::uint64_t highest) {
  struct Unit {
    std::string_view suffix;
    std::uint64_t bytes;
  };
  constexpr Unit kUnits[] = {{"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kKiB * kMiB}, {"TiB", kMiB * kMiB}};
  std::uint64_t unit = 1;
  for (const Unit& candidate : kUnits) {
    if (!text.ends_with(candidate.suffix)) continue;
    text.remove_suffix(candidate.suffix.size());
    unit = candidate.bytes;
    break;
  }
  const auto count = number(text, (lowest + unit - 1) / unit, highest / unit);
  if (!count) return std::nullopt;
  return *count * unit;
}

std::optional<bool> on_or_off(std::string_view text) {
  if (text == "on" || text == "1") return true;
  if (text == "off" || text == "0") return false;
  return std::nullopt;
}

template <class Target, class Value>
bool assign(Target& target, const std::optional<Value>& value) {
  if (value) target = static_cast<Target>(*value);
  return value.has_value();
}

bool parse_cores(std::string_view text, Config& config) {
  return assign(config.cores, number(text, 1, static_cast<std::uint64_t>(shmem::kMaxCores)));
}
bool parse_profile(std::string_view text, Config& config) { return assign(config.profile, find_profile(text)); }
bool parse_heap(std::string_view text, Config& config) {
  return assign(config.heap, byte_count(text, 64 * kKiB, 16 * kMiB * kMiB));
}
bool parse_ipc_window(std::string_view text, Config& config) {
  const auto mebibytes = number(text, 0, kMiB);
  if (mebibytes) config.ipc_data = Bytes{*mebibytes * kMiB};
  return mebibytes.has_value();
}
bool parse_communicators(std::string_view text, Config& config) {
  return assign(config.communicators, number(text, 1, Config::kMostCommunicators));
}
bool parse_generation(std::string_view text, Config& config) {
  return assign(config.generation, number(text, 0, 1'000'000));
}
bool parse_bootstrap_timeout(std::string_view text, Config& config) {
  const auto seconds = number(text, 1, 86'400);
  if (seconds) config.bootstrap_timeout = std::chrono::seconds{*seconds};
  return seconds.has_value();
}
bool parse_wait_limit(std::string_view text, Config& config) {
  const auto limit = number(text, 0, 86'400'000);
  if (limit) config.wait_limit = std::chrono::milliseconds{*limit};
  return limit.has_value();
}
bool parse_views(std::string_view text, Config& config) { return assign(config.views, on_or_off(text)); }
bool parse_copy(std::string_view text, Config& config) {
  config.copy = shmem::find_copy_kind(text);
  return config.copy || text == "auto";
}
bool parse_pin(std::string_view text, Config& config) {
  config.pin = text == "cores" ? Pin::cores : Pin::none;
  return text == "cores" || text == "none";
}
bool parse_weak(std::string_view text, Config& config) {
  return assign(config.weak_seed, number(text, 0, std::numeric_limits<std::uint64_t>::max()));
}
bool parse_strict(std::string_view text, Config& config) { return assign(config.strict, on_or_off(text)); }
bool parse_prove(std::string_view text, Config& config) { return assign(config.prove, on_or_off(text)); }
bool parse_log(std::string_view text, Config& config) {
  constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error"};
  if (std::ranges::find(kLevels, text) == std::end(kLevels)) return false;
  config.log_level = text;
  return true;
}
/// Before the job rather than when it has something to say.
bool is_writable(const std::string& file) {
  const std::filesystem::path path = file;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    return !std::filesystem::is_directory(path, ignored) && ::access(file.c_str(), W_OK) == 0;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  return std::filesystem::is_directory(folder, ignored) && ::access(folder.c_str(), W_OK) == 0;
}
bool parse_verdict(std::string_view text, Config& config) {
  config.verdict_file = text;
  return !text.empty() && is_writable(config.verdict_file);
}
/// A variable that is read and checked elsewhere; listed here so that the table is complete.
bool read_at_start(std::string_view /*text*/, Config& /*config*/) { return true; }

constexpr const char* kFaults = "SHMOE_FAULTS";
constexpr const char* kLinks = "SHMOE_LINKS";

// Rows are read in order: of two names of one setting the later one wins.
constexpr std::array kSettings{
    Setting{"SHMOE_CORES", "1", "1 to 48", "AI cores of a rank, each a thread", parse_cores},
    Setting{"SHMOE_PROFILE", "safe", "safe, faithful-2026-07, faithful-2026-08",
            "corrected protocol, or the published one with its holes", parse_profile},
    Setting{"SHMOE_HEAP", "1GiB", "bytes from 64KiB to 16TiB, also as KiB, MiB, GiB, TiB",
            "symmetric heap of a communicator, in steps of 2MiB; reserved and not committed", parse_heap},
    Setting{"CAM_BUFFSIZE", "", "MiB, 0 to 1048576", "published name of SHMOE_BUFFSIZE, which wins over it",
            parse_ipc_window},
    Setting{"SHMOE_BUFFSIZE", "204", "MiB, 0 to 1048576", "data of the ipc window, used by detour collectives",
            parse_ipc_window},
    Setting{"SHMOE_COMMUNICATORS", "8", "1 to 64", "communicators a rank can be in at the same time",
            parse_communicators},
    Setting{"SHMOE_GENERATION", "0", "0 to 1000000",
            "of a rank that replaces a lost one: the one in which the others start again", parse_generation},
    Setting{"SHMOE_BOOTSTRAP_TIMEOUT_S", "30", "seconds, 1 to 86400", "how long ranks wait for each other at the start",
            parse_bootstrap_timeout},
    Setting{"SHMOE_WAIT_LIMIT_MS", "0", "milliseconds, 0 to 86400000",
            "limit of every wait, of a SyncAll twice that; 0 is none", parse_wait_limit},
    Setting{"SHMOE_VIEWS", "on", "on, off", "off: operators copy instead of reading peers' memory in place",
            parse_views},
    Setting{
        "SHMOE_COPY", "auto", "auto, cached, streaming, movsb",
        "how puts copy long rows; auto: as rank 0 measures at the start, and past the cache what does not fit in it",
        parse_copy},
    Setting{"SHMOE_PIN", "none", "none, cores", "cores: each core of the job on a CPU of its own, if there are enough",
            parse_pin},
    Setting{"SHMOE_WEAK", "0", "a seed; 0 is off", "puts land late, in an order drawn from the seed", parse_weak},
    Setting{kFaults, "", "a file", "faults to inject, one a line; apps/11_faults/README.md tells how they are written",
            read_at_start},
    Setting{kLinks, "", "a file", "how fast links are, for puts; `shmoe choose --help` tells how they are written",
            read_at_start},
    Setting{"SHMOE_STRICT", "on", "on, off", "check writers and kinds of signals at every call", parse_strict},
    Setting{"SHMOE_PROVE", "on", "on, off", "sleeping waits look for deadlocks and prove them", parse_prove},
    Setting{"SHMOE_VERDICT", "", "a file that can be written",
            "where the rank that proves a deadlock writes it as JSON", parse_verdict},
    Setting{"SHMOE_LOG", "warn", "trace, debug, info, warn, error", "lowest level of log lines on stderr", parse_log},
    Setting{"SHMOE_RANK", "", "0 to size - 1", "rank of this process, instead of the launcher's", read_at_start},
    Setting{"SHMOE_SIZE", "", "1 to 4096", "number of ranks, instead of the launcher's", read_at_start},
    Setting{"SHMOE_JOB", "", "a name", "name of the job, the same on all its ranks", read_at_start},
    Setting{"SHMOE_LAUNCHER", "", "a name", "what set SHMOE_RANK and SHMOE_SIZE, for messages", read_at_start},
    Setting{"SHMOE_COMM_ID", "", "a.b.c.d:port", "where the ranks meet; default: a file in the runtime folder",
            read_at_start},
    Setting{"CAM_COMM_ID", "", "a.b.c.d:port", "published name of SHMOE_COMM_ID, which wins over it", read_at_start},
    Setting{"SHMOE_SECRET", "", "any text", "admits ranks where they meet at an address that is not loopback",
            read_at_start},
};

struct Row {
  std::string variable, fallback, takes, meaning;
};

std::vector<Row> rows() {
  std::vector<Row> all{{"variable", "default", "takes", "meaning"}};
  for (const Setting& setting : kSettings) {
    all.push_back(
        {setting.variable, *setting.fallback == '\0' ? "-" : setting.fallback, setting.takes, setting.meaning});
  }
  return all;
}

std::string shortened(std::string_view text) {
  std::string shown{text.substr(0, 60)};
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }, '?');
  return text.size() > 60 ? shown + "..." : shown;
}

}  // namespace

Config Config::defaults() {
  Config config;
  for (const Setting& setting : kSettings) {
    if (*setting.fallback == '\0') continue;
    const bool parsed = setting.parse(setting.fallback, config);
    SHMOE_EXPECTS(parsed, "the default of {} does not parse", setting.variable);
  }
  return config;
}

Result<Config> Config::load(const Lookup& lookup) {
  Config config = defaults();
  for (const Setting& setting : kSettings) {
    const auto text = lookup(setting.variable);
    if (!text || setting.parse(*text, config)) continue;
    return Error{Errc::invalid_argument,
                 fmt::format("{} is '{}'; it takes {}", setting.variable, shortened(*text), setting.takes),
                 {}};
  }
  if (const auto path = lookup(kFaults); path && !path->empty()) {
    Result<FaultPlan> faults = FaultPlan::load(*path);
    if (!faults) return std::move(faults).error().within(kFaults);
    config.faults = *std::move(faults);
  }
  if (const auto path = lookup(kLinks); path && !path->empty()) {
    const Result<LinkSpeeds> links = LinkSpeeds::load(*path);
    if (!links) return Error(links.error()).within(kLinks);
    config.links = *links;
  }
  return config;
}

Result<Config> Config::load() {
  return load([](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string{name}.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string{value};
  });
}

std::span<const Setting> settings() { return kSettings; }

std::string settings_text() {
  const std::vector<Row> all = rows();
  Row widest;
  for (const Row& row : all) {
    if (row.variable.size() > widest.variable.size()) widest.variable = row.variable;
    if (row.fallback.size() > widest.fallback.size()) widest.fallback = row.fallback;
    if (row.takes.size() > widest.takes.size()) widest.takes = row.takes;
  }
  std::string text;
  for (const Row& row : all) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", row.variable, widest.variable.size(), row.fallback,
                        widest.fallback.size(), row.takes, widest.takes.size(), row.meaning);
  }
  return text;
}

std::string settings_markdown() {
  std::string text = "| variable | default | takes | meaning |\n|---|---|---|---|\n";
  for (const Setting& setting : kSettings) {
    const std::string fallback = *setting.fallback == '\0' ? "" : fmt::format("`{}`", setting.fallback);
    text += fmt::format("| `{}` | {} | {} | {} |\n", setting.variable, fallback, setting.takes, setting.meaning);
  }
  return text;
}

}  // namespace shmoe::runtime
