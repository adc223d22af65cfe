#pragma once
// Every setting in one table: the environment variable, its default, what it means. `--help`, `shmoe info` and the
// README's table are made from it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/rendezvous.hpp"
#include "runtime/fault_plan.hpp"
#include "runtime/link_speeds.hpp"
#include "shmem/copy.hpp"
#include "shmem/profile.hpp"
#include "shmem/result.hpp"
#include "shmem/signal.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

enum class Pin : std::uint8_t { none, cores };

struct Config {
  std::int32_t cores = 1;  // of a rank
  Profile profile = kSafe;
  Bytes heap{0};                   // symmetric heap of a communicator, reserved, not committed
  Bytes ipc_data{0};               // ipc window of a communicator
  std::int32_t communicators = 0;  // blocks per segment, kMostCommunicators at most
  std::int32_t generation = 0;     // only ranks of one generation of a job find each other
  std::chrono::milliseconds bootstrap_timeout{0};
  std::chrono::milliseconds wait_limit{0};  // deadline of every wait; 0: none
  bool views = true;                        // false: operators use get and put only
  std::optional<shmem::CopyKind> copy;      // of long rows; nothing: measured at the start
  Pin pin = Pin::none;
  std::uint64_t weak_seed = 0;      // not 0: puts land late, drawn from this seed
  FaultPlan faults;                 // to be injected
  std::optional<LinkSpeeds> links;  // that puts keep to
  bool strict = true;
  bool prove = true;         // waits that can never end are looked for
  std::string verdict_file;  // where a proven deadlock is written as JSON; empty: nowhere
  std::string log_level;

  static constexpr std::int32_t kMostCommunicators = 64;

  // Of the program, without a variable.
  std::string comm_id;  // a.b.c.d:port where the ranks meet; empty: the environment says
  /// What every process of the job must have alike, besides the settings.
  std::vector<bootstrap::Agreement> agreements;
  /// Slot families of the caller's own in every communicator, alike on every rank, in user data or low-latency region.
  std::function<void(shmem::SlotPlan&, const shmem::BlockMap&)> declare_slots;

  /// Looks settings up; the default looks in the process environment.
  using Lookup = std::function<std::optional<std::string>(std::string_view)>;
  /// For what is read at the start: rank, size and name of the job, where it meets. Empty: the process environment.
  Lookup environment;
  /// Errors:  invalid_argument naming the variable, its value and what it takes; as FaultPlan::load, as LinkSpeeds::load.
  static Result<Config> load(const Lookup& lookup);
  static Result<Config> load();
  /// Defaults only.
  static Config defaults();
};

/// One row of the table.
struct Setting {
  const char* variable;
  const char* fallback;  // default, as one would write it
  const char* takes;     // what values it takes
  const char* meaning;
  /// Parses `text` into the config; false where the text is no such value.
  bool (*parse)(std::string_view text, Config& config);
};

std::span<const Setting> settings();

/// The table as aligned text, and as a Markdown table for the README.
std::string settings_text();
std::string settings_markdown();

}  // namespace shmoe::runtime
