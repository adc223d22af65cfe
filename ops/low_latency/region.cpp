#include "ops/low_latency/region.hpp"

#include <algorithm>
#include <string_view>

namespace shmoe::ops {

namespace {

using shmem::kKiB;
using shmem::SlotFamily;

constexpr std::string_view kStatus = "ll_status";
constexpr std::string_view kDispatchFlags = "ll_dispatch_flag";
constexpr std::string_view kCombineFlags = "ll_combine_flag";

constexpr std::uint64_t kCards = LowLatencyRegion::kDispatchBuffers + LowLatencyRegion::kCombineBuffers;
constexpr Bytes kCardsAt{2 * kKiB};
constexpr Bytes kTextsAt{5 * kKiB};
constexpr Bytes kStatusAt{8 * kKiB};
constexpr Bytes kPublishedStatusAt{16 * kKiB};
constexpr Bytes kPublishedCombineAt{100 * kKiB};
constexpr Bytes kPublishedDispatchAt{164 * kKiB};
static_assert(kCardsAt + Bytes{shmem::kCardBytes * kCards} <= kTextsAt);
static_assert(kTextsAt + Bytes{shmem::kErrorTextBytes * kCards} <= kStatusAt);

/// Only the published profiles lay the region over the user data.
bool is_published(const shmem::BlockMap& map) { return map.low_latency.at == map.user_data.at; }

Offset end_of(const SlotFamily& family) { return family.base + Bytes{shmem::kSlotStride * family.count()}; }

void declare_published(shmem::SlotPlan& plan, const shmem::BlockMap& map) {
  const Offset base = map.low_latency.at;
  SlotFamily family{.name = std::string(kStatus),
                    .base = base + kPublishedStatusAt,
                    .sources = static_cast<std::uint32_t>(map.shape.ranks),
                    .width = 4};
  plan.declare(family);
  family.writers = shmem::Writers::source_and_owner;
  family.name = kCombineFlags;
  family.base = base + kPublishedCombineAt;
  plan.declare(family);
  family.name = kDispatchFlags;
  family.base = base + kPublishedDispatchAt;
  plan.declare(family);
}

void declare_safe(shmem::SlotPlan& plan, const shmem::BlockMap& map) {
  SlotFamily family{.name = std::string(kStatus),
                    .base = map.low_latency.at + kStatusAt,
                    .buffers = LowLatencyRegion::kDispatchBuffers,
                    .sources = static_cast<std::uint32_t>(map.shape.ranks)};
  family.base = end_of(plan.declare(family));
  family.name = kDispatchFlags;
  family.buffers = 1;
  family.base = end_of(plan.declare(family));
  family.name = kCombineFlags;
  family.buffers = LowLatencyRegion::kCombineBuffers;
  const Offset end = end_of(plan.declare(family));
  SHMOE_EXPECTS(end <= map.low_latency.end(),
                "the low-latency slots of {} ranks end at {:#x}, beyond their region, {:#x}", map.shape.ranks,
                end.value(), map.low_latency.end().value());
}

const SlotFamily* find_family(const shmem::SlotPlan& plan, std::string_view name) {
  const auto& families = plan.families();
  const auto found = std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.name == name; });
  return found == families.end() ? nullptr : &*found;
}

}  // namespace

void declare_low_latency(shmem::SlotPlan& plan, const shmem::BlockMap& map) {
  is_published(map) ? declare_published(plan, map) : declare_safe(plan, map);
}

Result<LowLatencyRegion> LowLatencyRegion::find(const shmem::SlotPlan& plan, const shmem::BlockMap& map) {
  LowLatencyRegion region;
  region.base_ = map.low_latency.at;
  region.status_ = find_family(plan, kStatus);
  region.dispatch_flags_ = find_family(plan, kDispatchFlags);
  region.combine_flags_ = find_family(plan, kCombineFlags);
  if (region.status_ == nullptr) {
    return Error{
        .code = Errc::invalid_argument,
        .context = "the low-latency slots are not declared: call ops::declare_low_latency in Config::declare_slots"};
  }
  const bool published = is_published(map);
  region.counts_ = published ? region.base_ + Bytes{128 * static_cast<std::uint64_t>(map.shape.cores)}
                             : Offset{round_up(end_of(*region.combine_flags_).value(), 64)};
  const Offset end = published ? region.status_->base : map.low_latency.end();
  const std::uint64_t halves = published ? 1 : kDispatchBuffers;
  region.most_columns_ = static_cast<std::int64_t>((end - region.counts_).value() / halves / 64 * 16);
  return region;
}

Offset LowLatencyRegion::card(std::uint64_t buffer) const {
  return base_ + kCardsAt + Bytes{shmem::kCardBytes * buffer};
}

Offset LowLatencyRegion::error_text(std::uint64_t buffer) const {
  return base_ + kTextsAt + Bytes{shmem::kErrorTextBytes * buffer};
}

Offset LowLatencyRegion::counts(std::uint64_t half, std::int64_t columns) const {
  return counts_ + Bytes{round_up(4 * static_cast<std::uint64_t>(columns), 64)} * half;
}

}  // namespace shmoe::ops
