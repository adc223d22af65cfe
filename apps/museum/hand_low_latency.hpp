#pragma once
// The low-latency dispatch as published, written by hand with a word for a row, for exhibits that leave out a part of it.
// Its tables lie in symmetric memory, so that the checker sees who reads them. The SyncAll that the published kernel lacks
// (S3) stands here.
//
//   1 LocalLayout       rows for each rank -> own counts                           SyncAll
//   2 SetLayoutStatus   status[me] of each = launch
//   3 SendCountNotify   wait for status[r]; counts of r -> table                   SyncAll
//   4 WaitNotify        table -> where my rows begin on each rank                  SyncAll
//   5 InputToDstOutput  every core: a row to every rank                            SyncAll
//   6 SetSyncFlag       flag[me] of each = 1.0f
//   7 WaitSyncFlag      wait for the sum; flags = 0                                SyncAll
//   8 CleanUp           counts = 0

#include <bit>

#include "apps/museum/exhibit.hpp"
#include "ops/low_latency/region.hpp"

namespace shmoe::apps::hand {

/// What is left out, or in the wrong place.
enum class Without : std::uint8_t {
  nothing,
  clearing,              // F10
  window_of_its_own,     // F11: the flags of combine are those of dispatch
  sum_before_clearing,   // F12
  layout_status,         // F13
  sync_after_layout,     // F14
  sync_after_counts,     // F15
  sync_after_bases,      // F16
  clean_up,              // F17
  flags_before_clean_up  // F18
};

class LowLatency {
 public:
  /// Of each row a word is used; the heap deals in so many bytes.
  static constexpr Bytes kRow{64};

  /// `rows`: one for each core of each rank.
  LowLatency(runtime::CoreContext& context, Offset rows, Without without)
      : context_(&context), rows_(rows), without_(without), share_(context.slice(context.ranks())) {}

  void dispatch(std::uint64_t launch) {
    local_layout();
    send_count_notify(launch);
    wait_notify();
    input_to_dst_output();
    const shmem::SlotFamily& flags = context_->slots().family("ll_dispatch_flag");
    set_sync_flag(flags);
    if (without_ == Without::flags_before_clean_up) clean_up();
    wait_sync_flag(flags);
    if (without_ != Without::flags_before_clean_up && without_ != Without::clean_up) clean_up();
  }

  /// Its flags alone.
  void combine() {
    const bool shared = without_ == Without::window_of_its_own;
    const shmem::SlotFamily& flags = context_->slots().family(shared ? "ll_dispatch_flag" : "ll_combine_flag");
    set_sync_flag(flags);
    wait_sync_flag(flags);
  }

  /// The rows received.
  void experts() {
    const auto rows = static_cast<std::uint64_t>(context_->cores() * context_->ranks());
    for (std::uint64_t row = 0; row < rows; ++row) load(context_->rank(), row_at(row), 0);
  }

 private:
  static constexpr Offset kCounts{0x8000};  // [R]: rows for each rank
  static constexpr Offset kTable{0x9000};   // [R, R]: the counts of all ranks
  static constexpr Offset kBases{0xA000};   // [R]: where the own rows begin on each
  static constexpr std::uint64_t kOne = std::bit_cast<std::uint32_t>(1.0F);

  std::uint64_t load(Rank rank, Offset table, std::uint64_t index,
                     const shmem::Witness& ordered = shmem::Witness::own()) {
    std::uint64_t word = 0;
    context_->get(rank, table + Bytes{8 * index}, std::span{&word, 1}, ordered);
    return word;
  }
  void store(Rank rank, Offset table, std::uint64_t index, std::uint64_t word) {
    context_->put(rank, table + Bytes{8 * index}, std::span<const std::uint64_t>{&word, 1});
  }
  /// This core's share of the ranks.
  template <class Act>
  void each_of_share(const Act& act) {
    for (std::int64_t rank = share_.first; rank < share_.last; ++rank) act(Rank{rank});
  }
  void sync_all(Without left_out) {
    if (without_ != left_out) context_->sync_all();
  }

  /// Added, since CleanUp has left zeros.
  void local_layout() {
    const Rank me = context_->rank();
    each_of_share([&](Rank rank) {
      const std::uint64_t before = load(me, kCounts, rank.index());
      store(me, kCounts, rank.index(), before + static_cast<std::uint64_t>(context_->cores()));
    });
    sync_all(Without::sync_after_layout);
  }

  void send_count_notify(std::uint64_t launch) {
    const shmem::SlotFamily& status = context_->slots().family("ll_status");
    each_of_share(
        [&](Rank rank) { context_->signal(rank, status.at(0, context_->rank()), shmem::SignalOp::set, launch); });
    each_of_share([&](Rank rank) {
      shmem::Witness told = shmem::Witness::own();
      if (without_ != Without::layout_status)
        told = consume_token(context_->wait(status.at(0, rank), Compare::equal, launch));
      for (std::uint64_t column = 0; column < ranks(); ++column) {
        store(context_->rank(), kTable, rank.index() * ranks() + column, load(rank, kCounts, column, told));
      }
    });
    sync_all(Without::sync_after_counts);
  }

  void wait_notify() {
    const Rank me = context_->rank();
    each_of_share([&](Rank owner) {
      std::uint64_t base = 0;
      for (std::uint64_t source = 0; source < me.index(); ++source) {
        base += load(me, kTable, source * ranks() + owner.index());
      }
      store(me, kBases, owner.index(), base);
    });
    sync_all(Without::sync_after_bases);
  }

  void input_to_dst_output() {
    for (Rank owner{0}; owner.value() < context_->ranks(); ++owner) {
      const std::uint64_t base = load(context_->rank(), kBases, owner.index());
      store(owner, row_at(base + context_->core().index()), 0, 1);
    }
    context_->sync_all();
  }

  void set_sync_flag(const shmem::SlotFamily& flags) {
    each_of_share(
        [&](Rank rank) { context_->signal(rank, flags.at(0, context_->rank()), shmem::SignalOp::set, kOne); });
  }

  void wait_sync_flag(const shmem::SlotFamily& flags) {
    std::vector<Slot> slots;
    each_of_share([&](Rank rank) { slots.push_back(flags.at(0, rank)); });
    if (without_ == Without::sum_before_clearing) clear(slots);
    const std::uint64_t all = slots.size() * kOne;
    if (!slots.empty()) {
      context_
          ->wait({.where = context_->rank(), .slots = slots, .match = shmem::Match::sum, .value = all, .upper = all})
          .ordering_only();
    }
    if (without_ != Without::clearing && without_ != Without::sum_before_clearing) clear(slots);
    context_->sync_all();
  }

  void clear(const std::vector<Slot>& slots) {
    for (const Slot slot : slots) context_->signal(context_->rank(), slot, shmem::SignalOp::set, 0);
  }

  void clean_up() {
    if (context_->core() != Core{0}) return;
    for (std::uint64_t rank = 0; rank < ranks(); ++rank) store(context_->rank(), kCounts, rank, 0);
  }

  [[nodiscard]] Offset row_at(std::uint64_t row) const { return rows_ + kRow * row; }
  [[nodiscard]] std::uint64_t ranks() const { return static_cast<std::uint64_t>(context_->ranks()); }

  runtime::CoreContext* context_;
  Offset rows_;
  Without without_;
  Slice share_;
};

/// Dispatch and experts, twice.
inline std::function<Result<void>(runtime::Communicator&)> low_latency_dispatches(Without without) {
  return [without](runtime::Communicator& comm) -> Result<void> {
    const Result<Offset> rows = comm.allocate(LowLatency::kRow * static_cast<std::uint64_t>(comm.ranks()) *
                                              static_cast<std::uint64_t>(comm.cores()));
    if (!rows) return rows.error();
    for (std::uint64_t launch = 1; launch <= 2; ++launch) {
      Result<void> done = comm.launch(
          "dispatch", [&](runtime::CoreContext& context) { LowLatency(context, *rows, without).dispatch(launch); });
      if (done) {
        done = comm.launch("experts",
                           [&](runtime::CoreContext& context) { LowLatency(context, *rows, without).experts(); });
      }
      if (!done) return done;
    }
    return {};
  };
}

}  // namespace shmoe::apps::hand
