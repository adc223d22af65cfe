#include "runtime/copy_choice.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "shmem/layout.hpp"

namespace shmoe::runtime {
namespace {

// Not a setting: it is spent once, by one rank, and a busy machine only gets fewer rounds.
constexpr auto kCalibrationTime = std::chrono::milliseconds(2);

// Measured with 2 to 8 ranks and 14-KiB rows: a quarter of the last cache loses nothing, be it shared with strangers.
// The largest caches are said to have more than a single machine of several has for itself.
constexpr std::uint64_t kMostNear = 16 * shmem::kMiB;
constexpr std::uint64_t kNearShare = 4;

/// Zero where the kernel does not say. The C library is not asked: on virtual machines it tells the host's.
std::uint64_t last_level_cache() {
  std::ifstream in{"/sys/devices/system/cpu/cpu0/cache/index3/size"};
  std::uint64_t kibibytes = 0;
  char unit = '\0';
  in >> kibibytes >> unit;
  return unit == 'K' ? kibibytes * shmem::kKiB : 0;
}

}  // namespace

shmem::CopyTimes measure_copies() { return shmem::calibrate_copy(kCalibrationTime); }

shmem::CopyKind copy_kind(const Config& config) { return config.copy ? *config.copy : measure_copies().fastest(); }

Bytes near_bytes() {
  const std::uint64_t cache = last_level_cache();
  return Bytes{cache == 0 ? kMostNear / 2 : std::min(kMostNear, cache / kNearShare)};
}

shmem::CopyPlan copy_plan(const Config& config, std::string_view measured, std::int32_t cores) {
  if (config.copy) return {.kind = *config.copy};
  return {.kind = shmem::find_copy_kind(measured).value_or(shmem::CopyKind::cached),
          .near_bytes = near_bytes().value() / static_cast<std::uint64_t>(cores)};
}

std::string to_text(const shmem::CopyPlan& plan) {
  std::string text{shmem::name_of(plan.kind)};
  const bool ends = plan.near_bytes != shmem::CopyPlan{}.near_bytes && plan.kind != shmem::CopyKind::streaming;
  if (ends) text += fmt::format(", streaming after {} KiB", plan.near_bytes / shmem::kKiB);
  return text;
}

}  // namespace shmoe::runtime
