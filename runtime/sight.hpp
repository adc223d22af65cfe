#pragma once
// What every core of a communicator was doing at one moment: what a verdict on waits that cannot end is judged from. The
// checker takes it from its scheduler, a live job from the wait records.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shmem/fabric.hpp"
#include "shmem/profile.hpp"
#include "shmem/records.hpp"
#include "shmem/signal.hpp"

namespace shmoe::runtime {

struct WaitSight {
  Rank where;               // whose slots
  std::vector<Slot> slots;  // of an all-wait the one that it lacks; of another one all
  shmem::Match match = shmem::Match::all;
  Compare compare = Compare::equal;
  std::uint64_t value = 0;
  std::uint64_t upper = 0;   // of a sum
  bool may_give_up = false;  // it has a deadline of its own
  shmem::Time since{0};      // on the steady clock; 0 where nobody says

  [[nodiscard]] Slot slot() const { return slots.front(); }
};

struct CoreSight {
  Rank rank;
  Core core = {};
  bool busy = false;  // in an operator
  std::string op = {};
  Round round = {};
  std::uint64_t launch = 0;  // of this communicator, the how manieth; the same of all where nobody counts
  std::uint32_t block = 0;   // that it runs, and of how many of the launch
  std::uint32_t blocks = 0;  // 0 where nobody says
  std::string site = {};     // of the wait
  std::optional<WaitSight> wait = {};
};

/// What a rank has noted of its signals to one slot.
struct LedgerSight {
  std::uint64_t count = 0;
  std::uint64_t value = 0;  // of the last one
  Core core = {};
  const shmem::RecordText* place = nullptr;  // in the code
  std::uint32_t held = 0;  // sent as well, and still with the sender; the last one is the newest of them

  [[nodiscard]] std::string site() const {
    return place == nullptr ? "an unknown place" : fmt::format("{}:{}", place->text(), place->number());
  }
};

struct Sight {
  const shmem::SlotPlan* slots = nullptr;
  std::int32_t ranks = 0;
  std::vector<CoreSight> cores;  // by rank, then core; every rank has as many
  std::function<std::uint64_t(Rank, Slot)> word;
  /// Whether somebody has ever looked at a slot; yes where that is not known.
  std::function<bool(Rank, Slot)> looked_at;
  /// May be empty.
  std::function<LedgerSight(Rank writer, Rank owner, Slot, shmem::Side)> ledger = {};
  /// How many kernels with flags a core has begun. May be empty.
  std::function<std::uint64_t(Rank, Core)> magic = {};
  FlagWord flag_word = FlagWord::sequence56_error8;
  /// What core 0 of a rank has launched, as far back as its events go, the newest last. May be empty.
  std::function<std::vector<std::string>(Rank)> operators = {};

  [[nodiscard]] std::size_t cores_a_rank() const { return cores.size() / static_cast<std::size_t>(ranks); }
  [[nodiscard]] std::span<const CoreSight> of(Rank rank) const {
    return std::span{cores}.subspan(rank.index() * cores_a_rank(), cores_a_rank());
  }
  /// No core of the rank is in an operator.
  [[nodiscard]] bool ended(Rank rank) const;
  /// Whose signals can end the wait.
  [[nodiscard]] std::vector<Rank> writers_of(const WaitSight& wait) const;
};

}  // namespace shmoe::runtime
