#pragma once
// The flags of the older operators over IPC memory: a word says the call ("magic") and a step within it, and whoever waits
// may look into any rank's memory.
//
//   inner [core]    in the memory of the rank that sets it, for its own cores
//   outer [core]    the same, for other ranks
//   sync [source]   in any rank's memory, set by the rank it is named after
//
// A wait is over when the word has its magic and at least its step. A word of a later call does not end it: then the flag
// has been overwritten before it was seen.
//
// Source: the older flag class of the published operators. There inner and sync lie at the same addresses and the magic has
//         32 bits and starts again at 1; here no two families overlap, and in safe the magic has 48 bits and never does.

#include <cstdint>
#include <string_view>

#include "runtime/core_context.hpp"
#include "shmem/signal.hpp"

namespace shmoe::runtime {

class LegacySync {
 public:
  struct Flags {
    shmem::SlotFamily inner, outer, sync;
  };
  /// Adds 2 * cores + ranks slots to a plan, from `base` on.
  static Flags declare(shmem::SlotPlan& plan, std::string_view name, Offset base, std::int32_t ranks,
                       std::int32_t cores);
  /// What declare has added.
  static Flags of(const shmem::SlotPlan& plan, std::string_view name);

  /// `magic`: 1 or more, the same on every rank in a call, and larger in every call.
  LegacySync(CoreContext& context, Flags flags, Round magic)
      : context_(&context), flags_(std::move(flags)), magic_(magic) {}

  // Errors:  of each wait, Interrupted as Context::wait.

  /// Own core's slot.
  /// Order:   everything this core sent before, to any rank, is readable by whoever waits for the flag.
  void set_inner(std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as set_inner
  void set_outer(std::uint32_t step, SourceSite site = SourceSite::here());
  /// This rank's slot in a rank's memory.
  /// Order:   as set_inner
  void set_sync(Rank memory, std::uint32_t step, SourceSite site = SourceSite::here());

  /// Order:   what the setter sent before is readable.
  shmem::Token wait_inner(Rank rank, Core core, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as wait_inner
  shmem::Token wait_outer(Rank rank, Core core, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as wait_inner
  shmem::Token wait_sync(Rank memory, Rank source, std::uint32_t step, SourceSite site = SourceSite::here());
  /// All cores of a rank.
  /// Order:   as wait_inner
  shmem::Witness wait_rank_inner(Rank rank, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as wait_inner
  shmem::Witness wait_one_rank_outer(Rank rank, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Cores [first, first + count) of every rank, from the own rank around.
  /// Order:   as wait_inner
  shmem::Witness wait_all_rank_part_outer(Core first, std::int32_t count, std::uint32_t step,
                                          SourceSite site = SourceSite::here());
  /// Order:   as wait_inner
  shmem::Witness wait_all_rank_outer(std::uint32_t step, SourceSite site = SourceSite::here());

  /// One look.
  /// Order:   true orders like the wait
  [[nodiscard]] bool check_inner(Rank rank, Core core, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as check_inner
  [[nodiscard]] bool check_outer(Rank rank, Core core, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as check_inner
  [[nodiscard]] bool check_sync(Rank memory, Rank source, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as check_inner
  [[nodiscard]] bool check_all_rank_outer(std::uint32_t step, SourceSite site = SourceSite::here());

  // Of slots that lie elsewhere.

  /// Order:   as set_inner
  void set(Rank memory, Slot slot, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as wait_inner
  shmem::Token wait(Rank memory, Slot slot, std::uint32_t step, SourceSite site = SourceSite::here());
  /// Order:   as check_inner
  [[nodiscard]] bool check(Rank memory, Slot slot, std::uint32_t step, SourceSite site = SourceSite::here());

 private:
  [[nodiscard]] std::uint64_t word(std::uint32_t step) const;
  [[nodiscard]] shmem::WaitSpec spec(Rank memory, const Slot& slot, std::uint32_t step) const;
  [[nodiscard]] static Slot slot_of(const shmem::SlotFamily& family, Core core) {
    return family.at(0, Rank{0}, static_cast<std::uint32_t>(core.value()));
  }

  CoreContext* context_;
  Flags flags_;
  Round magic_;
};

}  // namespace shmoe::runtime
