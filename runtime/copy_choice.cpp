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
constexpr std::uint64_t kMostShared = 16 * shmem::kMiB;
constexpr std::uint64_t kShareOfLast = 4;
constexpr std::uint64_t kLeastOwn = 512 * shmem::kKiB;

/// Zero where the kernel does not say. The C library is not asked: on virtual machines it tells the host's.
std::uint64_t cache_bytes(int level) {
  std::ifstream in{fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level)};
  std::uint64_t kibibytes = 0;
  char unit = '\0';
  in >> kibibytes >> unit;
  return unit == 'K' ? kibibytes * shmem::kKiB : 0;
}

Bytes shared_bytes() {
  const std::uint64_t cache = cache_bytes(3);
  return Bytes{cache == 0 ? kMostShared / 2 : std::min(kMostShared, cache / kShareOfLast)};
}

/// Half of a cache: what is copied comes from there too.
Bytes own_bytes() { return Bytes{std::max(kLeastOwn, cache_bytes(2) / 2)}; }

}  // namespace

CopyMeasurement measure_copies() {
  const Bytes own = own_bytes();
  const Bytes shared = shared_bytes();
  return {.own_bytes = own,
          .shared_bytes = shared,
          .own = shmem::calibrate_copy(own.index(), kCalibrationTime),
          .shared = shmem::calibrate_copy(shared.index(), kCalibrationTime)};
}

shmem::CopyPlan copy_plan(const CopyMeasurement& measured, std::int32_t cores) {
  const bool stays = measured.shared.fastest() != shmem::CopyKind::streaming;
  const std::uint64_t share = measured.shared_bytes.value() / static_cast<std::uint64_t>(cores);
  return {.kind = measured.own.fastest(), .near_bytes = stays ? share : std::min(share, measured.own_bytes.value())};
}

std::string to_text(const shmem::CopyPlan& plan) {
  std::string text{shmem::name_of(plan.kind)};
  const bool ends = plan.near_bytes != shmem::CopyPlan{}.near_bytes && plan.kind != shmem::CopyKind::streaming;
  if (ends) text += fmt::format(", streaming after {} KiB", plan.near_bytes / shmem::kKiB);
  return text;
}

}  // namespace shmoe::runtime
