#pragma once
// Rounds, cards and flags of the low-latency operators, as one core uses them within one call.
//
//   dispatch   status  --word--> every rank       wait, cards are compared       flag --word--> every rank       wait
//   combine                                                                      flag --word--> every rank       wait,
//                                                                                cards are compared
//   word       safe: {round, error}, awaited with >=, nobody clears it           published: float(magic) and 1.0f
//
// Cards are compared with the own one: where any two ranks differ, each rank sees one that differs from it. Which error
// all leave with is found out only then.

#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "ops/handshake.hpp"
#include "ops/low_latency/region.hpp"
#include "runtime/core_context.hpp"

namespace shmoe::ops {

class LowLatencySync {
 public:
  enum class Call : std::uint8_t { dispatch, combine };

  /// Takes the next round of its kind ("magic"): every core, once in each call.
  LowLatencySync(runtime::CoreContext& context, const LowLatencyRegion& region, Call call, const Handshake& handshake);
  /// Goes on with a call in flight.
  LowLatencySync(runtime::CoreContext& context, const LowLatencyRegion& region, Call call, const Handshake& handshake,
                 Round round);

  [[nodiscard]] Round round() const { return round_; }
  [[nodiscard]] bool published() const { return !context_->profile().handshake; }
  /// What is wrong with this rank's call: its arguments, or calls in flight that it may not overtake.
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }

  /// The call stays in flight when this kernel ends; and no longer.
  void open();
  void close();

  /// What the peers compare.
  /// Order:   a SyncAll before the word that tells of it
  void publish();

  // To and from this core's share of the ranks.

  /// Order:   counts and card of this rank, complete on all its cores, are readable by whoever waits for it
  void set_layout_status();
  /// Order:   counts and cards of this share are readable, once by this core and after a SyncAll by all
  /// Errors:  Interrupted, as Context::wait
  shmem::Witness wait_layout_status();
  /// Whether rank `peer` calls the same; notes it where it does not.
  /// Order:   after the wait for it
  bool agrees(Rank peer, const shmem::Witness& published);
  /// Order:   what the cores of this rank have completed before is readable by whoever waits for it
  void set_sync_flag();
  /// Order:   what the peers of this share had completed is readable, once by this core and after a SyncAll by all
  /// Errors:  Interrupted, as Context::wait
  shmem::Witness wait_sync_flag();

  /// Order:   a SyncAll after the waits of all cores
  /// Errors:  Interrupted, agreed by all ranks: the fault of the lowest rank that has one, else the lowest rank that
  ///          calls otherwise than rank 0
  void leave_on_fault();

 private:
  struct Rounds {
    std::uint64_t taken[2];  // of dispatches, of combines
    std::uint64_t open[2];   // those in flight: four times the oldest, + 1, and + 2 where the one after it is too
  };

  [[nodiscard]] std::size_t kind() const { return static_cast<std::size_t>(call_); }
  [[nodiscard]] Offset place() const { return region_->rounds_of(context_->core()); }
  Rounds load_rounds();
  void store_rounds(const Rounds& rounds);
  void check_in_flight(const Rounds& rounds);
  void check_paths();

  [[nodiscard]] std::uint64_t card_buffer() const;
  [[nodiscard]] const shmem::SlotFamily& flags() const;
  [[nodiscard]] std::uint64_t flag_buffer() const;
  [[nodiscard]] Slot status_slot(Rank source) const;
  [[nodiscard]] Slot flag_slot(Rank source) const { return flags().at(flag_buffer(), source); }
  [[nodiscard]] std::uint64_t word() const;
  [[nodiscard]] std::uint64_t word_with_error() const;
  /// Of this core, looked up once a call; the published kernels treat their own rank like any other.
  std::span<const Rank> peers();
  void tell_each(Slot mine, std::uint64_t word);
  shmem::Witness wait_words(const std::pmr::vector<Slot>& slots);
  shmem::Witness wait_sum(const std::pmr::vector<Slot>& slots);
  std::uint64_t digest_of(Rank rank, const shmem::Witness& published);
  void read_error(Rank peer, Errc raised, const shmem::Witness& published);
  void note(Error found);
  [[nodiscard]] std::optional<Error> mismatch();

  runtime::CoreContext* context_;
  const LowLatencyRegion* region_;
  Call call_;
  const runtime::CallCard* card_;
  std::optional<Error> fault_;
  Round round_;
  std::pmr::vector<Rank> peers_;
};

}  // namespace shmoe::ops
