#pragma once
// Where the words of the low-latency operators lie: a region of their own, apart from the flags of the normal path.
//
//   safe                                                  published, over the user data and the magic slots
//   +0        rounds of each core       48 x 32 B         +0        the same; the first 4 bytes are the magic
//   +2 KB     call cards                6 x 512 B         +128 C    counts              [E] i32
//   +5 KB     error texts               6 x 256 B         +16 KB    layout status       R x 32 B
//   +8 KB     layout status 0 | 1       R x 32 B each     +100 KB   combine flags       R x 32 B
//             dispatch flags            R x 32 B          +164 KB   dispatch flags      R x 32 B
//             combine flags 0 .. 3      R x 32 B each
//             counts 0 | 1              [N + E] i32 each, up to the end of the region
//
// Source: published map of the low-latency kernels. Their layout status is packed into 4 bytes a rank; a slot has 32 here,
//         so it lies elsewhere.

#include <cstdint>

#include "runtime/call_card.hpp"
#include "shmem/layout.hpp"
#include "shmem/signal.hpp"

namespace shmoe::ops {

/// Adds the slots of the low-latency operators to a plan: to be called in Config::declare_slots.
/// Errors:  a broken contract where they do not fit into the region, with both sizes, or overlap other slots
void declare_low_latency(shmem::SlotPlan& plan, const shmem::BlockMap& map);

class LowLatencyRegion {
 public:
  /// Errors:  invalid_argument where the slots are not declared; the same on every rank, since all have the same plan
  static Result<LowLatencyRegion> find(const shmem::SlotPlan& plan, const shmem::BlockMap& map);

  /// A call in flight keeps its words: two dispatches may be under way, and up to four combines of a fast rank and a slow
  /// one.
  static constexpr std::uint64_t kDispatchBuffers = 2;
  static constexpr std::uint64_t kCombineBuffers = 4;

  [[nodiscard]] Offset rounds_of(Core core) const { return base_ + Bytes{32 * core.index()}; }
  /// Cards of dispatches, then those of combines.
  [[nodiscard]] Offset card(std::uint64_t buffer) const;
  [[nodiscard]] Offset error_text(std::uint64_t buffer) const;
  [[nodiscard]] Offset counts(std::uint64_t half, std::int64_t columns) const;
  /// Counts that fit into each half.
  [[nodiscard]] std::int64_t most_columns() const { return most_columns_; }

  [[nodiscard]] const shmem::SlotFamily& status() const { return *status_; }
  [[nodiscard]] const shmem::SlotFamily& dispatch_flags() const { return *dispatch_flags_; }
  [[nodiscard]] const shmem::SlotFamily& combine_flags() const { return *combine_flags_; }

 private:
  LowLatencyRegion() = default;

  Offset base_;
  Offset counts_;
  std::int64_t most_columns_ = 0;
  const shmem::SlotFamily* status_ = nullptr;
  const shmem::SlotFamily* dispatch_flags_ = nullptr;
  const shmem::SlotFamily* combine_flags_ = nullptr;
};

}  // namespace shmoe::ops
