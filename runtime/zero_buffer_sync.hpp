#pragma once
// Flags and barriers of the zero-buffer region, as one core uses them within one kernel.
//
//   slot [b][s] of rank d, 32 B:  | word 8 B | bell 8 B | unused 16 B |     written by rank s, polled by rank d
//
// Nobody clears a slot: a word is unique because of its round. Two buffers alternate, so that a fast rank's next word
// cannot overwrite one that a slow rank still waits for. The profile says what the word is, how it is compared and
// which buffer comes next; the published choices have a hole (the double-barrier overrun), ours do not.
// Source: zero-buffer sync class of the published kernels, with its public names in snake case.

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "runtime/call_card.hpp"
#include "runtime/core_context.hpp"

namespace shmoe::runtime {

class ZeroBufferSync {
 public:
  /// Takes the next round ("IncrementMagic"): every core, exactly once at the entry of each kernel that synchronises.
  explicit ZeroBufferSync(CoreContext& context);

  [[nodiscard]] Round round() const { return round_; }

  /// Shapes:  wait_cost [R], or none: then nothing is measured
  /// Units:   wait_cost[r] grows by the nanoseconds this core waited for the flag of rank r, one of its share of the ranks
  /// Order:   everything every core of every rank did before is readable by every core of every rank afterwards.
  /// Errors:  Interrupted, as Context::wait.
  shmem::Witness barrier_all(std::span<std::int64_t> wait_cost = {}, SourceSite site = SourceSite::here());

  /// The barrier at the entry of an operator. In `safe` it compares the calls of all ranks and carries errors: when any
  /// rank's card differs from rank 0's or any rank has a fault, every core of every rank leaves with the same error: a
  /// fault before a mismatch, of the lowest rank. At most once in a kernel, as its first barrier.
  /// Shapes:  as barrier_all.
  /// Order:   as barrier_all.
  /// Errors:  Interrupted with mismatch, with the fault of a rank, or as Context::wait.
  shmem::Witness enter(const CallCard& card, const std::optional<Error>& fault, std::span<std::int64_t> wait_cost = {},
                       SourceSite site = SourceSite::here());

  // Event flags: slot [source][event] of the buffer of the round. The word in `safe`: round 48 bits, phase 16 bits.
  // Errors:  of each wait, Interrupted as Context::wait; in `safe` a phase over 65535 breaks the contract.

  /// Order:   everything this core sent before, to any rank, is readable by whoever waits for the flag.
  void set_flag(Rank dst, std::uint32_t event, std::uint32_t phase, SourceSite site = SourceSite::here());
  /// Every rank of [first, last) but this one.
  /// Order:   as set_flag.
  void set_flag_batch(Rank first, Rank last, std::uint32_t event, std::uint32_t phase,
                      SourceSite site = SourceSite::here());
  /// Every core signals every rank, event = own core.
  /// Order:   as set_flag.
  void set_all_rank_core_flag(std::uint32_t phase, SourceSite site = SourceSite::here());
  /// Order:   what the setter sent before is readable.
  shmem::Token wait_flag(Rank src, std::uint32_t event, std::uint32_t phase, SourceSite site = SourceSite::here());
  /// Order:   true orders like wait_flag.
  [[nodiscard]] bool check_flag(Rank src, std::uint32_t event, std::uint32_t phase,
                                SourceSite site = SourceSite::here());
  /// Meaningful for this round and the one before: older flags are overwritten.
  /// Order:   as wait_flag.
  shmem::Token wait_flag_with_magic(Rank src, std::uint32_t event, Round round, std::uint32_t phase,
                                    SourceSite site = SourceSite::here());
  /// Every rank of [first, last) but this one.
  /// Order:   as wait_flag.
  shmem::Witness wait_flag_batch(Rank first, Rank last, std::uint32_t event, std::uint32_t phase,
                                 SourceSite site = SourceSite::here());
  /// Events [first, first + count) of one rank.
  /// Order:   as wait_flag.
  shmem::Witness wait_flag_range(Rank src, std::uint32_t first, std::uint32_t count, std::uint32_t phase,
                                 SourceSite site = SourceSite::here());
  /// Order:   as wait_flag_range.
  shmem::Witness wait_flag_range_with_magic(Rank src, std::uint32_t first, std::uint32_t count, Round round,
                                            std::uint32_t phase, SourceSite site = SourceSite::here());
  /// All events of this core's share of the ranks. No SyncAll: a core knows about its own share only.
  /// Order:   as wait_flag.
  shmem::Witness wait_all_rank_all_event(std::uint32_t phase, SourceSite site = SourceSite::here());

 private:
  struct BarrierWord {
    std::uint64_t buffer;
    std::uint64_t word;  // without an error
    std::uint64_t card_buffer;
  };
  struct Handshake {
    const CallCard* card;
    const std::optional<Error>* fault;
  };

  BarrierWord next_barrier();
  shmem::Witness barrier(const Handshake* handshake, std::span<std::int64_t> wait_cost, SourceSite site);
  void publish(const Handshake& handshake, const BarrierWord& barrier, SourceSite site);
  void signal_slice(const BarrierWord& barrier, Errc error, SourceSite site);
  void wait_slice(const BarrierWord& barrier, const Handshake* handshake, std::span<std::int64_t> wait_cost,
                  SourceSite site);
  /// Waits for the flags one by one, in the order in which they come.
  shmem::Witness wait_measured(std::span<const Rank> peers, const shmem::WaitSpec& all,
                               std::span<std::int64_t> wait_cost, SourceSite site);
  std::uint64_t digest_of(Rank rank, const BarrierWord& barrier, const shmem::Witness& published, SourceSite site);
  CallCard card_of(Rank rank, const BarrierWord& barrier, const shmem::Witness& published, SourceSite site);
  /// Of the ranks whose cards differ from rank 0's, the lowest of this core's slice.
  void compare_slice(const BarrierWord& barrier, const shmem::Witness& published, SourceSite site);
  /// Keeps the error that comes first of those this core has found.
  void note(Error found);
  void leave_on_fault();
  [[nodiscard]] std::uint64_t flag_word(Round round, std::uint32_t phase) const;
  /// [first, last) but this rank.
  [[nodiscard]] std::pmr::vector<Rank> others(Rank first, Rank last) const;
  std::span<const Rank> peers_of_this_core();
  [[nodiscard]] Slice ranks_of_this_core() const { return context_->slice(context_->ranks()); }

  CoreContext* context_;
  Round round_;
  std::uint64_t barriers_ = 0;  // executed by this core in this communicator, all kernels
  std::uint32_t sequence_ = 0;  // barriers of this kernel
  std::pmr::vector<Rank> peers_;
  std::pmr::vector<Slot> slots_;
};

}  // namespace shmoe::runtime
